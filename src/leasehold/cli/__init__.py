"""The command line: one module for each group of commands, put together here."""

import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from leasehold import __version__
from leasehold.cli import (
    definitions,
    dev,
    doctor,
    enqueue,
    events,
    grants,
    job_actions,
    jobs,
    limits,
    logs,
    migrate,
    psql,
    scheduler,
    secrets,
    tick,
    triggers,
    worker,
    workers,
)
from leasehold.cli.help import Command, Group

app = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False)

GROUPS: dict[str, list[Callable[..., None]]] = {
    "Run": [dev.dev, worker.worker, scheduler.scheduler, tick.tick, migrate.migrate, grants.grants],
    "Jobs": [
        enqueue.enqueue,
        jobs.jobs,
        jobs.job,
        logs.logs,
        job_actions.retry,
        job_actions.cancel,
        job_actions.run_now,
    ],
    "Tenants": [limits.tenants, limits.counts, limits.limits, limits.limit, limits.pause, limits.resume],
    "Operate": [workers.workers, workers.prune, doctor.doctor, psql.psql],
}
for group, commands in GROUPS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=group)(command)
app.add_typer(events.commands, name="events", rich_help_panel="Jobs")
app.add_typer(triggers.commands, name="triggers", rich_help_panel="Jobs")
app.add_typer(definitions.commands, name="definitions", rich_help_panel="Operate")
app.add_typer(secrets.commands, name="secrets", rich_help_panel="Operate")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"leasehold {__version__}")
        raise typer.Exit


@app.callback()
def leasehold(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable background jobs for multi-tenant Python apps, in your own Postgres."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without ✓ shows another character instead of a traceback
    app(prog_name="leasehold")

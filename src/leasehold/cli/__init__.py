"""The command line: one module for each group of commands, put together here."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from leasehold import __version__
from leasehold.cli import (
    audit,
    capacity,
    console,
    definitions,
    dev,
    doctor,
    enqueue,
    errors,
    events,
    grants,
    job_actions,
    jobs,
    limits,
    logs,
    migrate,
    operations,
    psql,
    scheduler,
    secrets,
    series,
    serve,
    tenants,
    tick,
    tokens,
    top,
    triggers,
    usage,
    views,
    why,
    worker,
    workers,
)
from leasehold.cli.help import Command, DatabaseCommand, Group
from leasehold.cli.server_choice import ServerOptions, begin_command_line

app = typer.Typer(cls=Group, no_args_is_help=True, pretty_exceptions_enable=False)

GROUPS: dict[str, list[Callable[..., None]]] = {
    "Run": [dev.dev, worker.worker, scheduler.scheduler, serve.serve, tick.tick, migrate.migrate, grants.grants],
    "Jobs": [
        enqueue.enqueue,
        jobs.jobs,
        jobs.job,
        why.why,
        logs.logs,
        errors.errors,
        job_actions.retry,
        job_actions.cancel,
        job_actions.run_now,
    ],
    "Tenants": [limits.counts, limits.limits, limits.limit, limits.pause, limits.resume],
    "Operate": [
        top.top,
        workers.workers,
        workers.prune,
        audit.audit,
        series.series,
        usage.usage,
        doctor.doctor,
        psql.psql,
        capacity.capacity,
    ],
}
NEED_A_DATABASE = {*GROUPS["Run"], workers.prune, doctor.doctor, psql.psql, capacity.capacity}
for group, commands in GROUPS.items():
    for command in commands:
        kind = DatabaseCommand if command in NEED_A_DATABASE else Command
        app.command(cls=kind, rich_help_panel=group)(command)
app.add_typer(events.commands, name="events", rich_help_panel="Jobs")
app.add_typer(triggers.commands, name="triggers", rich_help_panel="Jobs")
app.add_typer(views.commands, name="views", rich_help_panel="Jobs")
app.add_typer(tenants.commands, name="tenants", rich_help_panel="Tenants")
app.add_typer(operations.commands, name="operations", rich_help_panel="Operate")
app.add_typer(definitions.commands, name="definitions", rich_help_panel="Operate")
app.add_typer(secrets.commands, name="secrets", rich_help_panel="Operate")
app.add_typer(tokens.commands, name="token", rich_help_panel="Operate")
app.add_typer(console.commands, name="console", rich_help_panel="Operate")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"leasehold {__version__}")
        raise typer.Exit


@app.callback()
def leasehold(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    api: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Use a server of the API. Default: LEASEHOLD_API.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its token.", show_default=False, hidden=True)
    ] = None,
    plain_http: Annotated[bool, typer.Option("--plain-http", hidden=True)] = False,
) -> None:
    """Durable background jobs for multi-tenant Python apps, in your own Postgres."""
    begin_command_line(ServerOptions(api, token_file, plain_http))


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without ✓ shows another character instead of a traceback
    app(prog_name="leasehold")

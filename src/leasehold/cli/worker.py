"""`leasehold worker`."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from leasehold.cli.interrupts import run
from leasehold.cli.metrics import Endpoint, MetricsHost, MetricsPort
from leasehold.cli.options import (
    Commands,
    Except,
    LogLines,
    Only,
    Schema,
    Tenants,
    Url,
    begin_logs_of_service,
    read_selection,
)
from leasehold.cli.output import explain_errors, stderr
from leasehold.cli.target import load_target, require_jobs
from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.model.duration import read_duration
from leasehold.operations.views import describe_subscription
from leasehold.runtime.process import Parent, drain_with_stdin, end_with_stdin, leave, serve
from leasehold.runtime.redacted_logs import redact_all_logs
from leasehold.runtime.redacted_prints import RedactedStream, redact_prints
from leasehold.telemetry import Event, Listeners, Observer, ignore_events
from leasehold.telemetry.attempt_events import events_log
from leasehold.telemetry.listeners import ALL_EVENTS, FREQUENT_EVENTS
from leasehold.worker import Worker
from leasehold.worker.heartbeat import Leases

Target = Annotated[
    str | None,
    typer.Argument(help="Where the app is: file.py or package.module, or either:name.", show_default=False),
]
Slots = Annotated[int, typer.Option(help="Jobs at once, each process.", min=1, metavar="N")]
SERVERS = ("http://", "https://")
_CHILD = "from leasehold.cli import main; main()"


def worker(
    target: Target = None,
    commands: Commands = None,
    slots: Slots = 10,
    processes: Annotated[int, typer.Option(help="Worker processes, kept alive.", min=1, metavar="N")] = 1,
    grace: Annotated[str, typer.Option(help="How long jobs may end after a stop.", metavar="TIME")] = "30s",
    lease: Annotated[str, typer.Option(help="A claim without heartbeats.", metavar="TIME")] = "60s",
    no_scheduler: Annotated[
        bool, typer.Option("--no-scheduler", help="Don't fire schedules.", show_default=False)
    ] = False,
    only: Only = None,
    exclude: Except = None,
    tenants: Tenants = None,
    url: Url = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For an https:// URL: the token.", show_default=False),
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Allow http:// to other machines.", show_default=False)
    ] = False,
    schema: Schema = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = None,
    json: Annotated[bool, typer.Option("--json", help="Events, one JSON object per line on stdout.")] = False,
    log_format: LogLines = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
    until_parent_ends: Annotated[bool, typer.Option("--until-parent-ends", hidden=True)] = False,
) -> None:
    """Run jobs until stopped.

    SIGTERM drains: running jobs end within the grace, the rest is given back.
    """
    with explain_errors(json):
        logs = begin_logs_of_service(log_format)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a worker over HTTP prints a line for each request
    redact_all_logs()
    redact_prints()
    events_log.disabled = events_log.disabled or json  # stdout has them
    if until_stdin_ends:
        end_with_stdin()
    if until_parent_ends:
        drain_with_stdin()
    if token_file is not None:
        os.environ["LEASEHOLD_TOKEN_FILE"] = str(token_file.absolute())
    if plain_http:
        os.environ["LEASEHOLD_PLAIN_HTTP"] = "on"
    with explain_errors(json), ExitStack() as aside:
        observe = Listeners([logs, aside.enter_context(events_on_stdout()) if json else ignore_events])
        app = load_target(target, commands)
        redact_all_logs()  # once more: the app may have set up handlers of its own
        app.configure(url=url, schema=schema)
        require_jobs(app, target)
        app.handlers.require_secret_keys()
        options = replace(
            app.worker_settings(),
            slots=slots,
            leases=Leases(busy=read_duration(lease), idle=3 * read_duration(lease)),
            grace=read_duration(grace),
            **read_selection(only, exclude, tenants),
        )
        usable, _ = app.handlers.of_this_machine()
        serves = options.subscription(app.handlers.keys, usable.keys)
        endpoint = Endpoint(app, metrics_port, metrics_host)
        home, schema = None if app.settings.url else app.settings.home, app.settings.schema
        with app.database() as where:
            with suppress(Unreachable):  # the worker waits for a database that is away
                run(engine_for(where, schema).schema_status()).require_usable()
            if processes > 1:  # after the checks: the parent would restart a child that can't start for ever
                aside.close()
                endpoint.require_free(processes)
                leave(Parent(command_line(*_of_a_child(sys.argv[1:])), processes).run())
            if home:
                stderr.print(
                    f"! database  LEASEHOLD_URL is not set: this worker runs the jobs of the embedded Postgres in "
                    f"{home.resolve()}, and no others. Set LEASEHOLD_URL or --url in production; "
                    "LEASEHOLD_EMBEDDED=off refuses to start without.",
                    markup=False,
                )
                app.configure(url=where)
            server = f", by {engine_for(where).address}" if where.startswith(SERVERS) else ""
            ready = f"✓ worker    {slots} slots for {describe_subscription(serves)}{server}"
            say_ready = partial(stderr.print, ready, markup=False)
            aside.enter_context(endpoint.open())

            def make_worker() -> Worker:
                return endpoint.attach(app.make_worker(where, options, observe, scheduler=not no_scheduler))

            leave(serve(make_worker, (lambda: None) if json else say_ready))


def command_line(*arguments: str) -> list[str]:
    """Returns a command that runs `leasehold` with these arguments, without its script."""
    return [sys.executable, "-c", _CHILD, *arguments]


class EventPrinter:
    """Prints events as JSON, but for those that come all the time."""

    wants = ALL_EVENTS - FREQUENT_EVENTS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(f"{event.as_json()}\n")
        self._stream.flush()


@contextmanager
def events_on_stdout() -> Iterator[Observer]:
    """Reserves stdout for events: output of handlers and their processes goes to stderr meanwhile."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as events:
        os.dup2(2, 1)
        if isinstance(sys.stdout, io.TextIOWrapper | RedactedStream):
            sys.stdout.reconfigure(line_buffering=True)

        try:
            yield EventPrinter(events)
        finally:
            sys.stdout.flush()
            os.dup2(events.fileno(), 1)


def _of_a_child(arguments: list[str]) -> list[str]:
    """Returns the same command line for a single process whose stdin is its parent's."""
    kept = [word for word in arguments if not word.startswith("--processes=") and word != "--until-stdin-ends"]
    if "--processes" in kept:
        place = kept.index("--processes")
        del kept[place : place + 2]
    return [*kept, "--until-parent-ends"]

"""`leasehold scheduler`."""

from contextlib import ExitStack, suppress
from functools import partial
from typing import Annotated

import typer

from leasehold.app import Leasehold
from leasehold.cli.interrupts import run
from leasehold.cli.metrics import Endpoint, MetricsHost, MetricsPort
from leasehold.cli.options import LogLines, Schema, Url, begin_logs_of_service, require_database
from leasehold.cli.output import explain_errors, stderr
from leasehold.cli.worker import events_on_stdout
from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.runtime.process import leave, serve
from leasehold.runtime.redacted_logs import redact_all_logs
from leasehold.telemetry import Listeners, ignore_events


def scheduler(
    url: Url = None,
    schema: Schema = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = None,
    json: Annotated[bool, typer.Option("--json", help="Events, one JSON object per line on stdout.")] = False,
    log_format: LogLines = None,
) -> None:
    """Fire schedules until stopped.

    Workers do so by themselves; this is for fleets whose workers run with --no-scheduler. Several may run.
    """
    with explain_errors(json), ExitStack() as aside:
        logs = begin_logs_of_service(log_format)
        redact_all_logs()
        observe = Listeners([logs, aside.enter_context(events_on_stdout()) if json else ignore_events])
        app = require_database(Leasehold(url, schema=schema))
        with app.database() as where:
            with suppress(Unreachable):  # the scheduler waits for a database that is away
                run(engine_for(where, app.settings.schema).schema_status()).require_usable()
            say_ready = partial(stderr.print, "✓ scheduler fires the schedules of all tenants", markup=False)
            endpoint = Endpoint(app, metrics_port, metrics_host)
            aside.enter_context(endpoint.open())
            leave(serve(lambda: endpoint.attach(app.make_scheduler(where, observe)), say_ready))

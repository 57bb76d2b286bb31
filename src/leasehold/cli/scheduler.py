"""`leasehold scheduler`."""

import logging
from contextlib import ExitStack, suppress
from functools import partial
from typing import Annotated

import typer

from leasehold.app import Leasehold
from leasehold.cli.interrupts import run
from leasehold.cli.options import Schema, Url, require_database
from leasehold.cli.output import explain_errors, stderr
from leasehold.cli.worker import events_on_stdout
from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.runtime.process import leave, serve
from leasehold.runtime.redacted_logs import redact_all_logs
from leasehold.telemetry import ignore_events


def scheduler(
    url: Url = None,
    schema: Schema = None,
    json: Annotated[bool, typer.Option("--json", help="Events, one JSON object per line on stdout.")] = False,
) -> None:
    """Fire schedules until stopped.

    Workers do so by themselves; this is for fleets whose workers run with --no-scheduler. Several may run.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    redact_all_logs()
    with explain_errors(json), ExitStack() as aside:
        observe = aside.enter_context(events_on_stdout()) if json else ignore_events
        app = require_database(Leasehold(url, schema=schema))
        with app.database() as where:
            with suppress(Unreachable):  # the scheduler waits for a database that is away
                run(engine_for(where, app.settings.schema).schema_status()).require_usable()
            say_ready = partial(stderr.print, "✓ scheduler fires the schedules of all tenants", markup=False)
            leave(serve(lambda: app.make_scheduler(where, observe), say_ready))

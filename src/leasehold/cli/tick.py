"""`leasehold tick`."""

from dataclasses import asdict
from typing import Annotated

import typer

from leasehold.cli.options import Commands, Except, Only, Schema, Tenants, Url, read_selection, require_database
from leasehold.cli.output import explain_errors, print_json, stderr
from leasehold.cli.target import load_target, require_jobs
from leasehold.cli.worker import Slots, Target
from leasehold.runtime.redacted_logs import redact_all_logs
from leasehold.runtime.redacted_prints import redact_prints


def tick(
    target: Target = None,
    commands: Commands = None,
    max_jobs: Annotated[int, typer.Option(help="Run no more than so many.", min=1)] = 100,
    max_seconds: Annotated[str, typer.Option(help="Then give back what still runs, as in 10s.")] = "10s",
    slots: Slots = 10,
    only: Only = None,
    exclude: Except = None,
    tenants: Tenants = None,
    url: Url = None,
    schema: Schema = None,
    json: Annotated[bool, typer.Option("--json", help="Its result, as a JSON object.")] = False,
) -> None:
    """Run what is due, then end.

    For cron and other schedulers; any number may run at once.
    """
    with explain_errors(json):
        redact_prints()
        app = load_target(target, commands)
        redact_all_logs()
        app.configure(url=url, schema=schema)
        require_jobs(app, target)
        require_database(app, may_create=True)
        ticked = app.tick(max_jobs, max_seconds, slots=slots, **read_selection(only, exclude, tenants))
        if json:
            print_json(asdict(ticked))
        else:
            done = f"{ticked.ran} ran, {ticked.succeeded} succeeded, {ticked.failed} failed"
            rest = f"{ticked.given_back} given back, {ticked.reclaimed} reclaimed, {ticked.fired} by schedules"
            stderr.print(f"✓ {done}, {rest}{'; there may be more' if ticked.more else ''}", markup=False)

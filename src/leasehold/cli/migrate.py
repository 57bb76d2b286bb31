"""`leasehold migrate`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from leasehold.cli.interrupts import run
from leasehold.cli.options import Json, Schema, Url, database
from leasehold.cli.output import explain_errors, print_json, print_text, stderr
from leasehold.config import Settings
from leasehold.engine import SchemaStatus
from leasehold.engines import DEFAULT_URL, engine_for
from leasehold.errors import InvalidInput


def migrate(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 6 if migrations are missing.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Change nothing; print all migrations as one script.")] = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Bring the database schema up to date.

    Safe while workers of the release before are running.
    """
    with explain_errors(json):
        settings = Settings.from_environment()
        schema = schema or settings.schema
        if check and sql:
            raise InvalidInput(
                "--check and --sql exclude each other: one compares, the other prints.",
                fix="Nothing was changed. Use one of them.",
            )
        if sql:
            engine = engine_for(url or settings.url or DEFAULT_URL, schema)
            _print_script(engine.scripts().migration(), engine.schema, json)
            return
        with database(url, settings) as found:
            engine = engine_for(found, schema)
            if check:
                _report_status(run(engine.schema_status()), json)
            else:
                applied = run(engine.prepare(stderr.print))
                now = run(engine.schema_status())
                now.require_usable()
                _report_applied(applied, now, json)


def _print_script(script: str, schema: str, json: bool) -> None:
    if json:
        print_json({"schema": schema, "sql": script})
    else:
        print_text(script)


def _report_status(status: SchemaStatus, json: bool) -> None:
    status.require_usable()
    if json:
        print_json({"schema": status.schema, "version": status.version, "known": status.known})
    else:
        stderr.print(f'✓ schema "{status.schema}" is at {status.version:04d}, as this version needs it')


def _report_applied(applied: Sequence[str], now: SchemaStatus, json: bool) -> None:
    if json:
        print_json({"schema": now.schema, "applied": list(applied), "version": now.version, "known": now.known})
    elif applied:
        stderr.print(f'✓ schema "{now.schema}": applied {", ".join(applied)}')
    elif now.current:
        stderr.print(f'✓ schema "{now.schema}" is up to date, nothing to do')
    else:
        stderr.print(
            f'! schema "{now.schema}" is at {now.version:04d}, newer than this version knows ({now.known:04d}), '
            "which still works on it; nothing to do"
        )

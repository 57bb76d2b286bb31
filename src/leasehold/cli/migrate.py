"""`leasehold migrate`."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from leasehold.cli.options import Json, Schema, Url, database
from leasehold.cli.output import explained, print_json, said
from leasehold.config import Settings
from leasehold.engines import migration_script, prepare_store, standing
from leasehold.engines.report import Standing
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
    with explained(json):
        settings = Settings.from_environment()
        schema = schema or settings.schema
        if check and sql:
            raise InvalidInput(
                "--check and --sql exclude each other: one compares, the other prints.",
                fix="Nothing was changed. Use one of them.",
            )
        if sql:
            _print_script(migration_script(url or settings.url, schema), schema, json)
            return
        with database(url, settings) as found:
            if check:
                _report_standing(asyncio.run(standing(found, schema)), json)
            else:
                _report_applied(asyncio.run(prepare_store(found, schema)), schema, json)


def _print_script(script: str, schema: str, json: bool) -> None:
    if json:
        print_json({"schema": schema, "sql": script})
    else:
        sys.stdout.write(script)


def _report_standing(standing: Standing, json: bool) -> None:
    standing.require_usable()
    if json:
        print_json({"schema": standing.schema, "version": standing.version, "known": standing.known})
    else:
        said.print(f'✓ schema "{standing.schema}" is at {standing.version:04d}, as this version needs it')


def _report_applied(applied: Sequence[str], schema: str, json: bool) -> None:
    if json:
        print_json({"schema": schema, "applied": list(applied)})
    elif applied:
        said.print(f'✓ schema "{schema}": applied {", ".join(applied)}')
    else:
        said.print(f'✓ schema "{schema}" is up to date, nothing to do')

"""The command line. Results go to stdout, everything said along the way to stderr."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console

from leasehold import embedded
from leasehold.config import Settings
from leasehold.engines.postgres import migrate as migrations
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, Unreachable

FAILED, USAGE, SCHEMA_NOT_CURRENT, UNREACHABLE = 1, 2, 6, 7
_EXIT_CODES = {InvalidInput: USAGE, SchemaMismatch: SCHEMA_NOT_CURRENT, Unreachable: UNREACHABLE}

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
_said = Console(stderr=True, highlight=False, soft_wrap=True)

Url = Annotated[str | None, typer.Option(help="The database. Default: LEASEHOLD_URL, else an embedded Postgres.")]
Schema = Annotated[str | None, typer.Option(help="The schema. Default: LEASEHOLD_SCHEMA, else leasehold.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]


@app.callback()
def leasehold() -> None:
    """Durable background jobs for multi-tenant Python apps, in the Postgres you already run."""


@app.command()
def migrate(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 6 if migrations are missing.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Change nothing; print all migrations as one script.")] = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Bring the database schema up to date. Safe while workers of the release before are running."""
    settings = Settings.from_environment()
    schema = schema or settings.schema
    with _explained(json):
        if check and sql:
            _said.print("--check and --sql exclude each other: one compares, the other prints. Nothing was changed.")
            raise typer.Exit(USAGE)
        if sql:
            sys.stdout.write(migrations.script(schema))
            return
        with _database(url, settings) as database:
            if check:
                _report_standing(asyncio.run(migrations.standing(database, schema)), json)
            else:
                _report_applied(asyncio.run(migrations.migrate(database, schema)), schema, json)


def main() -> None:
    app(prog_name="leasehold")


def _report_standing(standing: migrations.Standing, json: bool) -> None:
    if json:
        _print_json({"schema": standing.schema, "version": standing.version, "known": standing.known})
    standing.require_usable()
    if not json:
        _said.print(f'✓ schema "{standing.schema}" is at {standing.version:04d}, as this version needs it')


def _report_applied(applied: list[migrations.Migration], schema: str, json: bool) -> None:
    if json:
        _print_json({"schema": schema, "applied": [migration.title for migration in applied]})
    elif applied:
        _said.print(f'✓ schema "{schema}": applied {", ".join(migration.title for migration in applied)}')
    else:
        _said.print(f'✓ schema "{schema}" is up to date, nothing to do')


@contextmanager
def _database(url: str | None, settings: Settings) -> Iterator[str]:
    url = url or settings.url
    if url:
        yield url
        return
    home = Path(settings.home)
    with embedded.postgres(home) as server:
        _said.print(f"✓ database  PostgreSQL {server.version}, started for you, data in {home}")
        yield server.url


@contextmanager
def _explained(json: bool) -> Iterator[None]:
    """Errors of ours are messages, not tracebacks; machines get the same as JSON."""
    try:
        yield
    except LeaseholdError as error:
        _fail(error, json)


def _fail(error: LeaseholdError, json: bool) -> NoReturn:
    if json:
        _print_json({"error": {"code": error.code, "message": error.happened, "fix": error.fix}})
    _said.print(f"✕ {error}", markup=False)
    code = next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), FAILED)
    raise typer.Exit(code) from error


def _print_json(document: object) -> None:
    sys.stdout.write(orjson.dumps(document).decode() + "\n")

"""The command line. Results go to stdout, everything said along the way to stderr."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console

from leasehold import __version__, embedded
from leasehold.config import Settings, read_duration
from leasehold.engines import open_store
from leasehold.engines.postgres import migrate as migrations
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, Unreachable
from leasehold.worker import Handlers, Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases
from leasehold.worker.process import Parent, leave, serve

FAILED, USAGE, SCHEMA_NOT_CURRENT, UNREACHABLE = 1, 2, 6, 7
_EXIT_CODES = {InvalidInput: USAGE, SchemaMismatch: SCHEMA_NOT_CURRENT, Unreachable: UNREACHABLE}

_CHILD = "from leasehold.cli import main; main()"

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
    with _explained(json):
        settings = Settings.from_environment()
        schema = schema or settings.schema
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


@app.command()
def worker(
    handlers: Annotated[
        str, typer.Argument(help="Where the handlers are: file.py or package.module, or either:name.")
    ],
    slots: Annotated[int, typer.Option(help="How many jobs run at once, in each process.", min=1)] = 10,
    processes: Annotated[int, typer.Option(help="How many worker processes; a parent keeps them alive.", min=1)] = 1,
    grace: Annotated[str, typer.Option(help="How long running jobs may go on after a stop, as in 30s.")] = "30s",
    lease: Annotated[str, typer.Option(help="How long a claim holds without a heartbeat, as in 60s.")] = "60s",
    url: Url = None,
    schema: Schema = None,
) -> None:
    """Run jobs until stopped. SIGTERM drains: running jobs end within the grace, the rest is given back."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with _explained(json=False):
        settings = Settings.from_environment()
        if processes > 1:
            leave(Parent([sys.executable, "-c", _CHILD, *_without_processes(sys.argv[1:])], processes).run())
        leases = Leases(busy=read_duration(lease), idle=3 * read_duration(lease))
        options = WorkerSettings(
            slots=slots,
            leases=leases,
            notify=settings.notify,
            fallback=settings.fallback,
            grace=read_duration(grace),
            version=__version__,
        )
        found = load_handlers(handlers)
        schema = schema or settings.schema
        with _database(url, settings) as database:
            with suppress(Unreachable):  # a database that is away is waited for
                asyncio.run(migrations.standing(database, schema)).require_usable()
            _said.print(f"✓ worker    {slots} slots for {', '.join(found.keys)}", markup=False)
            leave(serve(lambda: Worker(partial(open_store, database, schema), found, options)))


def main() -> None:
    app(prog_name="leasehold")


def _report_standing(standing: migrations.Standing, json: bool) -> None:
    standing.require_usable()
    if json:
        _print_json({"schema": standing.schema, "version": standing.version, "known": standing.known})
    else:
        _said.print(f'✓ schema "{standing.schema}" is at {standing.version:04d}, as this version needs it')


def _report_applied(applied: list[migrations.Migration], schema: str, json: bool) -> None:
    if json:
        _print_json({"schema": schema, "applied": [migration.title for migration in applied]})
    elif applied:
        _said.print(f'✓ schema "{schema}": applied {", ".join(migration.title for migration in applied)}')
    else:
        _said.print(f'✓ schema "{schema}" is up to date, nothing to do')


def load_handlers(target: str) -> Handlers:
    """The Handlers object that a file or module holds; by name, where it holds several."""
    place, _, name = target.partition(":")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except (ImportError, FileNotFoundError) as error:
        raise InvalidInput(f"{place} can't be loaded: {error}.", fix="Nothing was started.") from error
    found = {key: value for key, value in vars(module).items() if isinstance(value, Handlers)}
    if name in found:
        return found[name]
    if name or len(found) != 1:
        raise InvalidInput(
            f"{target} names no Handlers; {place} holds {', '.join(found) or 'none'}.",
            fix=f"Nothing was started. Write {place}:name for one of them.",
        )
    return next(iter(found.values()))


def _load_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _without_processes(arguments: list[str]) -> list[str]:
    """The same command line, for a single process."""
    kept = [word for word in arguments if not word.startswith("--processes=")]
    if "--processes" in kept:
        place = kept.index("--processes")
        del kept[place : place + 2]
    return kept


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

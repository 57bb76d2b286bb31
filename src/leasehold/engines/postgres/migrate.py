"""Forward-only migrations, under a lock. The release before keeps working on the new schema."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from random import random
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from leasehold.engine import MigrationStep, SchemaStatus, migrate_command
from leasehold.engines.postgres import locks
from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.statements import render
from leasehold.errors import SchemaMismatch

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

T = TypeVar("T")

# A migration that waits for a lock makes all other sessions wait behind it: a column added behind an idle transaction
# blocked all enqueues for 12 s. So it gives up soon, lets the others pass, and tries again. The lock under which
# migrations run one at a time has the same limit: any role that may connect can hold it.
LOCK_TIMEOUT = "2s"
TRIES = 30
LONGEST_PAUSE = 5.0

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_NEEDS = re.compile(r"^-- needs: (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    needs: int
    text: str = field(repr=False)

    @property
    def title(self) -> str:
        return f"{self.version:04d}_{self.name}"


@cache
def newest_version() -> int:
    """Returns the version that this code needs, by the names of the files: opening a store reads no migration."""
    return max(version for version, _, _ in _migration_files())


def migrations(schema: str) -> Sequence[Migration]:
    found = []
    for version, name, file in _migration_files():
        text = file.read_text("utf-8")
        needs = _NEEDS.search(text)
        found.append(Migration(version, name, int(needs[1]) if needs else version, render(text, schema)))
    return sorted(found, key=lambda migration: migration.version)


def _migration_files() -> Iterator[tuple[int, str, Traversable]]:
    for file in (files(__package__) / "migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            yield int(match[1]), match[2], file


async def schema_status(url: str, schema: str = "leasehold") -> SchemaStatus:
    return await status_of(Database(url, schema))


async def status_of(database: Database) -> SchemaStatus:
    connection = await database.connect()
    try:
        with database.translate_errors():
            return await _status(database, connection)
    finally:
        await close_connection(connection)


async def status_in_pool(database: Database) -> SchemaStatus:
    """Reads the status by one statement, on a connection that the pool keeps for the statements that follow."""
    with database.translate_errors():
        async with database.connection() as connection:
            try:
                newest = await database.fetch_on(connection, "ledger/newest")
            except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                newest = []
    version, needs = newest[0] if newest else (0, 0)
    return SchemaStatus(database.schema, version, needs, newest_version())


def _ignore(_text: str) -> None: ...


async def migrate(url: str, schema: str = "leasehold", tell: Callable[[str], None] = _ignore) -> list[Migration]:
    """Applies missing migrations, each in a transaction of its own, and returns them. Safe to call from many at once.

    A migration whose locks other sessions hold is rolled back and tried again; `tell` gets the names of those
    sessions.
    """
    database = Database(url, schema)
    connection = await database.connect_within(None)
    patience = _Patience(database, connection, tell)
    try:
        await patience.with_locks("the ledger of migrations", partial(_open, database, connection))
        return [
            migration
            for migration in migrations(database.schema)
            if await patience.with_locks(
                f"migration {migration.title}", partial(_apply, database, connection, migration)
            )
        ]
    finally:
        await close_connection(connection)


def script(schema: str = "leasehold") -> str:
    """Returns all migrations as one SQL script, for tools that apply it to an empty database."""
    each = [step.script.rstrip() for step in steps(schema)]
    return "\n\n".join(["begin;", _lock_limit(), _opening(Database("", schema)), *each, "commit;"]) + "\n"


def steps(schema: str = "leasehold") -> list[MigrationStep]:
    """Returns the migrations one by one, for tools that have a ledger of their own beside ours."""
    database = Database("", schema)
    record, applied = database.statement("ledger/record"), database.statement("ledger/applied")
    found = []
    for migration in migrations(schema):
        values = {"version": str(migration.version), "name": f"'{migration.name}'", "needs": str(migration.needs)}
        found.append(
            MigrationStep(
                version=migration.version,
                opening=_opening(database),
                lock_limit=_lock_limit(),
                applied=applied.fill_in({"version": values["version"]}),
                script=f"{migration.text.rstrip()}\n\n{record.fill_in(values)};\n",
            )
        )
    return found


def _opening(database: Database) -> str:
    """Returns the SQL that runs before any migration, and changes nothing if it ran before."""
    parts = [database.statement(f"ledger/{name}").text for name in ("lock", "create_schema", "create")]
    return "\n\n".join(f"{part.removesuffix(';')};" for part in parts)


def _lock_limit() -> str:
    return f"set local lock_timeout = '{LOCK_TIMEOUT}';"


async def _open(database: Database, connection: OwnConnection) -> None:
    async with database.transaction(connection):
        await connection.execute(f"{_lock_limit()}\n\n{_opening(database)}")


async def _apply(database: Database, connection: OwnConnection, migration: Migration) -> bool:
    async with database.transaction(connection):
        await locks.limit_waits(database, connection, LOCK_TIMEOUT)
        await database.fetch_on(connection, "ledger/lock")
        if migration.version <= (await _status(database, connection)).version:
            return False
        await connection.execute(migration.text)
        await database.fetch_on(
            connection, "ledger/record", version=migration.version, name=migration.name, needs=migration.needs
        )
        return True


class _Patience:
    """Tries a transaction again while other sessions hold its locks, and tells which sessions those are."""

    def __init__(self, database: Database, connection: OwnConnection, tell: Callable[[str], None]) -> None:
        self._database = database
        self._connection = connection
        self._tell = tell

    async def with_locks(self, name: str, transaction: Callable[[], Awaitable[T]]) -> T:
        for number in range(1, TRIES + 1):
            try:
                return await transaction()
            except asyncpg.LockNotAvailableError:
                holders = await self._holders()
                pause = min(LONGEST_PAUSE, 0.1 * 2**number) * (0.5 + random() / 2)
                self._tell(f"{name} waits for a lock, try {number} of {TRIES}: {holders}")
                await asyncio.sleep(pause if number < TRIES else 0)
        schema = self._database.schema
        raise SchemaMismatch(
            f'{name} got no lock on "{schema}" in {TRIES} tries of {LOCK_TIMEOUT}: {holders}. '
            "It was rolled back, nothing of it was kept.",
            fix="End those transactions, for example by: select pg_terminate_backend(PID). "
            f"Then run: {migrate_command(schema)}",
            code="LH-2003",
        )

    async def _holders(self) -> str:
        of_migrations = await locks.holders(self._database, self._connection, locks.MIGRATE)
        of_tables = await self._database.fetch_on(self._connection, "ledger/holders")
        held = [f"{holder} holds the lock of migrations" for holder in of_migrations]
        for row in of_tables:
            since = "" if row["seconds"] is None else f" since {row['seconds']} s"
            held.append(f"pid {row['pid']} ({row['application']}, role {row['role']}) has a transaction open{since}")
        return "; ".join(held) or "no session holds one any more"


async def _status(database: Database, connection: "Connection") -> SchemaStatus:
    ((exists,),) = await database.fetch_on(connection, "ledger/exists")
    newest = await database.fetch_on(connection, "ledger/newest") if exists else []
    version, needs = newest[0] if newest else (0, 0)
    return SchemaStatus(database.schema, version, needs, newest_version())

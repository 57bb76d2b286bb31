"""Databases that tests use one after the other: after each, all rows are as they were in the template.

A clone copies 9 MB and hundreds of files, into pages of memory that are new each time: to make and drop it takes the
server 11 ms of processor time, and to put the rows back 2 ms, on a connection that is kept: a new one would read the
catalogs of all tables first.

A database is dropped instead if its test has changed more than rows: tables, functions, their rights, settings. Only
tests of `REUSING` in conftest.py and those of tests/store share databases so: others look at plans, statistics, dead
rows or locks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from tests.database_server import DatabaseServer

from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.test_databases import CLOSING, DatabaseClock, TemplateDatabases
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]
else:
    Raw = asyncpg.Connection

T = TypeVar("T")
MOST_USES = 25
"""Deleted rows stay in their tables until a vacuum: a database that was used so often is dropped. After 60 uses of
three jobs each, 905 rows of jobs were dead; from 5,000 on, claims may look otherwise.
"""
SCHEMA = "leasehold"
KEPT = "test-databases"
"""The name of the connections that are kept: no test has left them behind."""
ENDED = (asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError, asyncpg.InterfaceError, OSError)
# Deletes are neither checked nor answered by triggers, and wait for no lock of a transaction that was left behind.
PREPARE = "set local session_replication_role = replica; set local lock_timeout = '2s'"
TABLES = """
    select relname, format('delete from %I.%I', $1::text, relname)
    from pg_class where relnamespace = $1::text::regnamespace and relkind = 'r' order by relname
"""
SEQUENCES = """
    select format('select setval(%L, %s, %L)', format('%I.%I', s.schemaname, s.sequencename),
                  coalesce(s.last_value, s.start_value), s.last_value is not null)
    from pg_sequences s where s.schemaname = $1
"""
# A row of a catalog that is changed gets another xmin, also by a grant. Vacuum and analyze change rows in place.
SHAPE = """
    with ours as (select oid from pg_namespace where nspname not like 'pg\\_%' and nspname <> 'information_schema')
    select md5(string_agg(found, ',' order by found)) from (
        select 'n' || oid || ':' || xmin from pg_namespace where oid in (select oid from ours)
        union all select 'c' || oid || ':' || xmin from pg_class where relnamespace in (select oid from ours)
        union all select 'a' || attrelid || '.' || attnum || ':' || a.xmin from pg_attribute a
                  join pg_class c on c.oid = a.attrelid where c.relnamespace in (select oid from ours)
        union all select 'p' || oid || ':' || xmin from pg_proc where pronamespace in (select oid from ours)
        union all select 't' || oid || ':' || xmin from pg_type where typnamespace in (select oid from ours)
        union all select 'k' || oid || ':' || xmin from pg_constraint
        union all select 'i' || indexrelid || ':' || i.xmin from pg_index i
                  join pg_class c on c.oid = i.indexrelid where c.relnamespace in (select oid from ours)
        union all select 'g' || oid || ':' || xmin from pg_trigger
        union all select 'y' || oid || ':' || xmin from pg_policy
        union all select 'd' || oid || ':' || xmin from pg_default_acl
        union all select 'x' || oid || ':' || xmin from pg_extension
        union all select 'e' || oid || ':' || xmin from pg_event_trigger
        union all select 's' || setrole || ':' || s.xmin from pg_db_role_setting s
                  join pg_database b on b.oid = s.setdatabase where b.datname = current_database()
    ) every (found)
"""


@dataclass
class Original:
    """A new clone of the template: the shape of its catalogs, its rows by table, and what empties a used one."""

    shape: str
    reset: str
    rows: dict[str, bytes]


@dataclass(frozen=True)
class ReusedDatabases(DatabaseServer):
    """Hands out a database that was used before and is as new, if there is one. Needs a link."""

    free: list[str] = field(default_factory=list, init=False)
    uses: dict[str, int] = field(default_factory=dict, init=False)
    originals: list[Original] = field(default_factory=list, init=False)
    kept: dict[str, OwnConnection] = field(default_factory=dict, init=False)

    async def clone(self) -> str:
        if self.free:
            return self.free.pop()
        name = await super().clone()
        await self._on_link(self._keep(name))
        return name

    async def drop(self, name: str, patience: timedelta = CLOSING) -> list[str]:
        left = await self._on_link(self._wait_for_others(name, patience))
        self.uses[name] = self.uses.get(name, 0) + 1
        if not left and self.uses[name] < MOST_USES and await self._on_link(self._restore(name)):
            self.free.append(name)
            return []
        await self._on_link(self._close(name))
        return await super().drop(name, patience)

    async def fetch(self, url: str, query: str, *arguments: object) -> list[asyncpg.Record]:
        """Asks a database on its kept connection."""

        async def ask(connection: OwnConnection) -> list[asyncpg.Record]:
            return await connection.fetch(query, *arguments)

        return await self._on_link(self._ask(url, ask))

    async def fetch_named(self, url: str, name: str, /, **values: object) -> list[asyncpg.Record]:
        """Asks a database by a statement of ours, on its kept connection."""
        database = Database(url, self.schema)

        async def ask(connection: OwnConnection) -> list[asyncpg.Record]:
            return await database.fetch_on(connection, name, **values)

        return await self._on_link(self._ask(url, ask))

    def clock_of(self, clock: DatabaseClock) -> DatabaseClock:
        """Returns the same clock, which opens no connection of its own for each move."""
        return KeptClock(clock.url, clock.schema, clock.moved, databases=self)

    async def drop_free(self) -> None:
        while self.free:
            name = self.free.pop()
            await self._on_link(self._close(name))
            await super().drop(name)

    # -------------------------------------------------------------------------------------------------- on the link

    async def _wait_for_others(self, name: str, patience: timedelta) -> list[str]:
        """Returns the connections, beside the kept one, that were still open after `patience`."""
        deadline = time.monotonic() + patience.total_seconds()
        while True:
            open_ones = await TemplateDatabases.wait_until_unused(self, name, timedelta())
            left = [each for each in open_ones if not each.startswith(f"{KEPT},")]
            if not left or time.monotonic() > deadline:
                return left
            await asyncio.sleep(0.02)

    async def _ask(self, url: str, ask: Callable[[OwnConnection], Awaitable[T]]) -> T:
        """Asks on a new connection if a test has ended all sessions. A question that broke under way is not repeated:
        it may have moved the clock.
        """
        name = next(each for each in self.kept if self.url_for(each) == url)
        connection = await self._connection(name)
        try:
            await connection.execute("select")
        except ENDED:
            connection.terminate()
            connection = await self._connection(name)
        return await ask(connection)

    async def _connection(self, name: str) -> OwnConnection:
        found = self.kept.get(name)
        if found is None or found.is_closed():
            database = Database(self.url_for(name), self.schema)
            found = self.kept[name] = await database.connect_within(None, {"application_name": KEPT})
        return found

    async def _close(self, name: str) -> None:
        if (found := self.kept.pop(name, None)) is not None:
            await close_connection(found)

    async def _keep(self, name: str) -> None:
        connection = await self._connection(name)
        if not self.originals:
            self.originals.append(await _read(connection))

    async def _restore(self, name: str) -> bool:
        """Returns whether the database is as new."""
        try:
            return await _restore(await self._connection(name), self.originals[0])
        except (asyncpg.PostgresError, asyncpg.InterfaceError, LeaseholdError, OSError):
            return False


@dataclass(frozen=True)
class KeptClock(DatabaseClock):
    """A clock that is asked and moved on the kept connection of its database."""

    databases: ReusedDatabases = field(kw_only=True)

    async def _ask(self, what: str, /, **values: object) -> Any:
        found = await self.databases.fetch_named(self.url, f"test_databases/{what}", **values)
        return found[0][0] if found else None


async def _read(connection: Raw) -> Original:
    tables = await connection.fetch(TABLES, SCHEMA)
    rows = {}
    for table, _ in tables:
        copy = BytesIO()
        copied = await connection.copy_from_table(table, schema_name=SCHEMA, output=copy, format="binary")
        if copied != "COPY 0":
            rows[table] = copy.getvalue()
    sequences = await connection.fetch(SEQUENCES, SCHEMA)
    reset = "; ".join([PREPARE, *(row[1] for row in tables), *(row[0] for row in sequences)])
    return Original(await connection.fetchval(SHAPE), reset, rows)


async def _restore(connection: Raw, original: Original) -> bool:
    if await connection.fetchval(SHAPE) != original.shape:
        return False
    async with connection.transaction():  # the settings end with it: tests look through this connection, too
        await connection.execute(original.reset)
        for table, rows in original.rows.items():
            await connection.copy_to_table(table, schema_name=SCHEMA, source=BytesIO(rows), format="binary")
    return True

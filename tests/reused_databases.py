"""Databases that tests use one after the other: after each, all rows are as they were in the template.

A clone copies 9 MB and hundreds of files, into pages of memory that are new each time: to put the rows back takes a
fraction of its processor time.

A database is dropped instead if its test has changed more than rows: tables, functions, rights, settings. Only tests
of `REUSING` in conftest.py share databases so: others look at plans, statistics, dead rows or locks.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO

import asyncpg
from tests.database_server import DatabaseServer

from leasehold.engines.postgres.test_databases import CLOSING

MOST_USES = 100
"""Deleted rows stay in their tables until a vacuum: a database that was used so often is dropped."""
SCHEMA = "leasehold"
# Deletes are neither checked nor answered by triggers, and wait for no lock of a transaction that was left behind.
PREPARE = "set session_replication_role = replica; set lock_timeout = '2s'"
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
    """Hands out a database that was used before and is as new, if there is one."""

    free: list[str] = field(default_factory=list, init=False)
    uses: dict[str, int] = field(default_factory=dict, init=False)
    originals: list[Original] = field(default_factory=list, init=False)

    async def clone(self) -> str:
        if self.free:
            return self.free.pop()
        name = await super().clone()
        if not self.originals:
            connection = await asyncpg.connect(self.url_for(name))
            try:
                self.originals.append(await _read(connection))
            finally:
                await connection.close()
        return name

    async def drop(self, name: str, patience: timedelta = CLOSING) -> list[str]:
        left = await self.wait_until_unused(name, patience)
        self.uses[name] = self.uses.get(name, 0) + 1
        if not left and self.uses[name] < MOST_USES and await self._restore(name):
            self.free.append(name)
            return []
        return await super().drop(name, patience)

    async def _restore(self, name: str) -> bool:
        """Returns whether the database is as new."""
        try:
            connection = await asyncpg.connect(self.url_for(name))
            try:
                return await _restore(connection, self.originals[0])
            finally:
                await connection.close()
        except (asyncpg.PostgresError, OSError):
            return False

    async def drop_free(self) -> None:
        while self.free:
            await super().drop(self.free.pop())


async def _read(connection: "asyncpg.Connection[asyncpg.Record]") -> Original:
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


async def _restore(connection: "asyncpg.Connection[asyncpg.Record]", original: Original) -> bool:
    if await connection.fetchval(SHAPE) != original.shape:
        return False
    await connection.execute(original.reset)
    for table, rows in original.rows.items():
        await connection.copy_to_table(table, schema_name=SCHEMA, source=BytesIO(rows), format="binary")
    return True

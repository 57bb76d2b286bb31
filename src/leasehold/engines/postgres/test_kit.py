"""Services for tests on Postgres: databases, a clock, stores that follow it, crashes, and a count of statements."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from leasehold.engines.postgres import migrate
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.store import PostgresStore
from leasehold.engines.postgres.test_databases import DatabaseClock, TemplateDatabases, end_sessions, is_stuck

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class PostgresTestKit:
    def __init__(self, url: str, schema: str) -> None:
        self._url, self._schema = url, schema
        self._moved = timedelta()
        self._sent: list[str] = []

    def databases(self, run: str, url_of: Callable[[str], str] | None = None) -> TemplateDatabases:
        return TemplateDatabases(self._url, run, self._schema, url_of)

    def clock(self) -> DatabaseClock:
        return DatabaseClock(self._url, self._schema, self._follow)

    async def open(self) -> PostgresStore:
        database = CountingDatabase(self._url, self._schema, self._sent)
        (await migrate.status_of(database)).require_usable()
        return PostgresStore(database, monotonic=self._monotonic)

    async def crash(self) -> None:
        await end_sessions(self._url, self._schema)

    def statements(self) -> Sequence[str]:
        return tuple(self._sent)

    async def is_stuck(self) -> bool:
        return await is_stuck(self._url, self._schema)

    def _follow(self, by: timedelta) -> None:
        self._moved += by

    def _monotonic(self) -> float:
        return time.monotonic() + self._moved.total_seconds()


class CountingDatabase(Database):
    """A database that notes the name of each statement."""

    def __init__(self, url: str, schema: str, sent: list[str]) -> None:
        super().__init__(url, schema)
        self._sent = sent

    async def fetch_planned_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        if not self.pooled:  # or it is counted by fetch_on
            self._sent.append(name)
        return await super().fetch_planned_on(connection, name, **values)

    async def fetch_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        self._sent.append(name)
        return await super().fetch_on(connection, name, **values)

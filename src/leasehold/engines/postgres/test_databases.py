"""Databases for tests: clones of a template that has the schema, and a clock that can be moved."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from leasehold.engines.postgres.connections import close_connection
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.migrate import migrate
from leasehold.engines.postgres.statements import render
from leasehold.engines.postgres.urls import replace_database

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

CLOSING = timedelta(seconds=5)


async def nothing_more(url: str) -> None:
    """Adds nothing: the template has the schema only."""


@dataclass(frozen=True)
class TemplateDatabases:
    """Databases on one server. `run` tells them from those of other runs there."""

    url: str
    run: str
    schema: str = "leasehold"
    url_of: Callable[[str], str] | None = None

    def url_for(self, name: str) -> str:
        return self.url_of(name) if self.url_of else replace_database(self.url, name)

    @property
    def template(self) -> str:
        return f"leasehold_test_{self.run}_{self.schema}"

    async def make_template(self, more: Callable[[str], Awaitable[None]] = nothing_more) -> None:
        """Makes the template once, in the first process that asks; it is ready when it is marked as a template."""
        async with self._admin() as (database, admin):
            await database.fetch_on(admin, "test_databases/lock", template=self.template)
            if await self._is_template(database, admin):
                return
            await self._do(database, admin, "drop", name=self.template)
            await self._do(database, admin, "create", name=self.template)
            await migrate(self.url_for(self.template), self.schema)
            await self._add_clock(self.url_for(self.template))
            await more(self.url_for(self.template))
            await self._do(database, admin, "mark", name=self.template, sealed=True)

    async def drop_template(self) -> None:
        async with self._admin() as (database, admin):
            if await self._is_template(database, admin):
                await self._do(database, admin, "mark", name=self.template, sealed=False)
            await self._do(database, admin, "drop", name=self.template)

    async def clone(self) -> str:
        """Makes a database and returns its name."""
        name = f"leasehold_test_{self.run}_{uuid4().hex[:12]}"
        async with self._admin() as (database, admin):
            await self._do(database, admin, "clone", name=name, template=self.template)
        return name

    async def drop(self, name: str, patience: timedelta = CLOSING) -> list[str]:
        """Returns the connections that were still open after `patience`: some are just closing."""
        left = await TemplateDatabases.wait_until_unused(self, name, patience)
        async with self._admin() as (database, admin):
            await self._do(database, admin, "drop", name=name)
        return left

    async def wait_until_unused(self, name: str, patience: timedelta) -> list[str]:
        """Returns the connections that were still open after `patience`."""
        async with self._admin() as (database, admin):
            deadline = time.monotonic() + patience.total_seconds()
            while left := [row[0] for row in await database.fetch_on(admin, "test_databases/connections", name=name)]:
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.02)
        return left

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator["tuple[Database, Connection]"]:
        database = Database(self.url, self.schema)
        connection = await database.connect_within(None)
        try:
            with database.translate_errors():
                yield database, connection
        finally:
            await close_connection(connection)

    async def _is_template(self, database: Database, admin: "Connection") -> bool:
        ((is_one,),) = await database.fetch_on(admin, "test_databases/is_template", name=self.template)
        return bool(is_one)

    async def _do(self, database: Database, admin: "Connection", what: str, /, **values: object) -> None:
        """Runs a command that names a database: such a command takes no parameters, so the server quotes the name."""
        ((command,),) = await database.fetch_on(admin, f"test_databases/{what}", **values)
        await admin.execute(command)

    async def _add_clock(self, url: str) -> None:
        connection = await Database(url, self.schema).connect()
        try:
            script = (files(__package__) / "movable_clock.sql").read_text("utf-8")
            await connection.execute(render(script, self.schema))
        finally:
            await close_connection(connection)


@dataclass(frozen=True)
class DatabaseClock:
    """The clock of one such database."""

    url: str
    schema: str = "leasehold"
    moved: Callable[[timedelta], None] = lambda _by: None
    """Called after the clock was moved."""

    async def now(self) -> datetime:
        moment: datetime = await self._ask("now")
        return moment

    async def move(self, by: timedelta) -> None:
        await self._ask("move", by=by)
        self.moved(by)

    async def freeze(self, at: datetime | None) -> None:
        """Stops the clock at that moment; None lets it run again."""
        await self._ask("freeze", at=at)

    async def _ask(self, what: str, /, **values: object) -> Any:
        return await _ask(self.url, self.schema, what, **values)


async def is_stuck(url: str, schema: str) -> bool:
    """Returns whether a session of this database waits for a lock."""
    return bool(await _ask(url, schema, "stuck"))


async def end_sessions(url: str, schema: str) -> None:
    """Ends all other sessions of this database."""
    await _ask(url, schema, "end_sessions")


async def _ask(url: str, schema: str, what: str, /, **values: object) -> Any:
    database = Database(url, schema)
    connection = await database.connect()
    try:
        with database.translate_errors():
            found = await database.fetch_on(connection, f"test_databases/{what}", **values)
            return found[0][0] if found else None
    finally:
        await close_connection(connection)

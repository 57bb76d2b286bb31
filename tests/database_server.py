"""The databases of one server: a clone of the template for each test that asks."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.admin_link import AdminLink

from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.test_databases import CLOSING, TemplateDatabases

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

T = TypeVar("T")


@dataclass(frozen=True)
class DatabaseServer(TemplateDatabases):
    """Fails a test that leaves a connection open. Clones and drops on its link, if it has one."""

    link: AdminLink | None = None

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        name = await self.clone()
        yield self.url_for(name)
        await self.drop(name)

    async def drop(self, name: str, patience: timedelta = CLOSING) -> list[str]:
        if left := await self._on_link(super().drop(name, patience)):
            pytest.fail(f"{len(left)} connection(s) left behind: {'; '.join(left)}")
        return left

    async def wait_until_unused(self, name: str, patience: timedelta) -> list[str]:
        """Returns the connections that were still open after `patience`."""
        return await self._on_link(super().wait_until_unused(name, patience))

    async def clone(self) -> str:
        return await self._on_link(super().clone())

    async def _on_link(self, work: Coroutine[Any, Any, T]) -> T:
        return await (self.link.run(work) if self.link else work)

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[tuple[Database, "Connection"]]:
        if self.link is None or not self.link.is_running_here:
            async with super()._admin() as opened:
                yield opened
            return
        database = Database(self.url, self.schema)
        with database.translate_errors():
            yield database, await self.link.connection()

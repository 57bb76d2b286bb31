"""Statements that no job waits for: they take back the claims of workers that are gone, and delete old jobs.

They have a connection of their own. On the finishing connection, deleting two million log lines delayed finishes by
2.7 s, and a reclaimed job whose row is locked by a stopped handler's transaction would delay them for as long.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from leasehold.engines.postgres.connections import OwnConnection
from leasehold.engines.postgres.database import ONE_PLAN, Database, Link

LINES_AT_ONCE = 10_000
IDLE = 10.0


class UpkeepLink(Link):
    """A link that closes its connection after some idle seconds: upkeep runs about once an hour."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, ONE_PLAN)
        self._idle: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[OwnConnection]:
        async with super().session() as connection:
            self._stop_timer()
            yield connection
            self._idle = asyncio.get_running_loop().call_later(IDLE, self._end_idle_connection)

    async def close(self) -> None:
        self._stop_timer()
        await super().close()

    async def prune(self, limit: int) -> int:
        """Deletes up to `limit` jobs, each with all of its lines, by statements that each delete a bounded number."""
        while await self._count("fleet/prune_lines", limit=limit, lines=LINES_AT_ONCE) == LINES_AT_ONCE:
            continue
        pruned = await self._count("fleet/prune", limit=limit)
        while await self._count("fleet/prune_holds", limit=limit) == limit:
            continue
        return pruned

    async def _count(self, name: str, **values: int) -> int:
        ((count,),) = await self.fetch(name, **values)
        return int(count)

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_idle_connection(self) -> None:
        if self._connection is not None and not self._turn.locked():
            self._connection.terminate()
            self._connection = None

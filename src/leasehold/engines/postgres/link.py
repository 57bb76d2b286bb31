"""Links: connections of our own for the hot statements, each for one purpose."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from leasehold.engines.postgres.connections import CLOSING, OwnConnection, close_connection
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.errors import BROKEN

# Hot tables are analysed when empty as often as when full. With these settings each hot statement has one plan, by
# index, whatever the statistics say; tests pin the plans. No handler ever gets such a connection.
ONE_PLAN = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "jit": "off",
    # A process that is stopped between two statements of a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "10s",
}
# Seconds that a worker's link waits for an answer: after that the default lease has ended anyway.
LINK_TIMEOUT = 60.0


class Link:
    """One connection of our own: opened when first needed, again after it broke; one user at a time.

    With `tells_of_loss`, the first call after it broke raises: its asynchronous commits may be undone, and the caller
    has to look at them before it goes on.
    """

    def __init__(self, database: Database, settings: Mapping[str, str], *, tells_of_loss: bool = False) -> None:
        self._database = database
        self._tells_of_loss = tells_of_loss
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection: OwnConnection | None = None

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        async with self.session() as connection:
            return await self._database.fetch_on(connection, name, **values)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[OwnConnection]:
        async with self._turn:
            with self._database.translated():
                if self._connection is not None and self._connection.is_closed():
                    self._connection = None
                    if self._tells_of_loss:
                        raise asyncpg.ConnectionDoesNotExistError("the connection was lost")
                if self._connection is None:
                    self._connection = await self._database.connect_within(LINK_TIMEOUT, self._settings)
                connection = self._connection
                try:
                    yield connection
                except BaseException as error:
                    # Broken, or a statement is under way whose answer may never come.
                    if isinstance(error, asyncio.CancelledError | BROKEN) or connection.is_closed():
                        connection.terminate()
                        self._connection = None
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[OwnConnection]:
        async with self.session() as connection, self._database.transaction(connection):
            yield connection

    async def close(self) -> None:
        """Waits a moment for the current user, but not for an answer that may never come."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.acquire(), CLOSING)
            self._turn.release()
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

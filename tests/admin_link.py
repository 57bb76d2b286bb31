"""A connection that makes and drops the databases of tests, and outlives their event loops.

Each test has a loop of its own. Without the link, its clone and its drop would each open a connection, and start a
backend of Postgres.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.engines.postgres.database import Database

T = TypeVar("T")


class AdminLink:
    """A loop in a thread of its own, and a connection on it that is opened when it is first needed."""

    def __init__(self, url: str, schema: str) -> None:
        self._database = Database(url, schema)
        self._connection: OwnConnection | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-databases", daemon=True)
        self._thread.start()

    @property
    def is_running_here(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work on the link's loop; its caller may be on any other."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def connection(self) -> OwnConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect_within(None)
        return self._connection

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        if self._connection is not None:
            await close_connection(self._connection)

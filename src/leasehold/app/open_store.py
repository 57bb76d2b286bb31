"""An open store with its catalog of definitions, and its sharing among users on one event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from leasehold.operations.catalog import Catalog, CodeDefinitions
from leasehold.store import Store


class OpenStore(Catalog):
    """One for each event loop that uses an app."""

    def __init__(self, store: Store, url: str, code: CodeDefinitions) -> None:
        super().__init__(store, code)
        self.url = url


class SharedStore:
    """One open store for all its users on one loop: opened by the first, closed by the last."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[OpenStore]]) -> None:
        self._open_store = open_store
        self._turn = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._users = 0
        self.current: OpenStore | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[OpenStore]:
        async with self._turn:
            if self.current is None:
                self.current = await self._stack.enter_async_context(self._open_store())
            self._users += 1
            current = self.current
        try:
            yield current
        finally:
            async with self._turn:
                self._users -= 1
                if not self._users:
                    self.current = None
                    await self._stack.aclose()

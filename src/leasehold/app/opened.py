"""An open store, and which versions of the code's definitions it holds."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import monotonic

from leasehold.model.definition import Definition, Registered, described, unknown_definition
from leasehold.store import Store
from leasehold.worker import Handlers

log = logging.getLogger("leasehold")

# By key alone, a definition is looked up; a change of it is seen after so many seconds.
FRESH = 30.0


class Opened:
    """One for each event loop that uses an app."""

    def __init__(self, store: Store, url: str, handlers: Handlers) -> None:
        self.store = store
        self.url = url
        self._handlers = handlers
        self.versions: dict[str, int] = {}
        self._registered: dict[str, Registered] = {}
        self._versions: dict[tuple[str, int], Definition] = {}
        self._looked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def version_of(self, key: str) -> int:
        """Its version in the database, where the code's definitions are registered when first asked for."""
        if key not in self._handlers.keys:
            return (await self.registered(key)).version
        if key not in self.versions:
            async with self._turn:
                if key not in self.versions:
                    await self._sync()
        return self.versions[key]

    def forget(self) -> None:
        """The database knows nothing of these versions any more: it was made anew."""
        self.versions.clear()
        self._registered.clear()
        self._versions.clear()

    async def _sync(self) -> None:
        changes = await self.store.sync_definitions(self._handlers.definitions)
        self.versions |= {change.key: change.version for change in changes}
        for line in described(changes):
            log.info("%s", line)

    async def registered(self, key: str) -> Registered:
        """A definition that other code has registered."""
        async with self._turn:
            if key not in self._registered or monotonic() - self._looked_at > FRESH:
                found = await self.store.definitions()
                self._registered = {each.definition.key: each for each in found}
                self._looked_at = monotonic()
        if key not in self._registered:
            raise unknown_definition(key, tuple(self._registered))
        return self._registered[key]

    async def stored(self, key: str, version: int | None) -> Definition | None:
        """Returns a definition as the database has it, in the version that is current or named; None: no such one."""
        if version is None:
            return (await self.registered(key)).definition
        if (key, version) not in self._versions:
            found = await self.store.definition_version(key, version)
            if found is None:
                return None
            self._versions[key, version] = found
        return self._versions[key, version]


class Shared:
    """One open store for all who use it on one loop: opened by the first, closed by the last."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_store = open_store
        self._turn = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._users = 0
        self.opened: Opened | None = None

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Opened]:
        async with self._turn:
            if self.opened is None:
                self.opened = await self._stack.enter_async_context(self._open_store())
            self._users += 1
            opened = self.opened
        try:
            yield opened
        finally:
            async with self._turn:
                self._users -= 1
                if not self._users:
                    self.opened = None
                    await self._stack.aclose()

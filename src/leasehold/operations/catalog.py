"""The definitions in the database as one process knows them: current versions, registered content, older versions."""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from leasehold.model.definition import Definition, Registered, describe_changes, unknown_definition
from leasehold.store import Store

log = logging.getLogger("leasehold")

# Seconds after which a definition that other code registered is read again.
FRESH = 30.0


class CodeDefinitions(Protocol):
    """The definitions whose handlers are part of this program."""

    @property
    def keys(self) -> Sequence[str]: ...

    @property
    def definitions(self) -> Sequence[Definition]: ...


class Catalog:
    """Registers the definitions of the code when one of them is first needed, and remembers their versions.

    `versions` holds current versions by key, only of definitions of the code.
    """

    def __init__(self, store: Store, code: CodeDefinitions) -> None:
        self.store = store
        self.versions: dict[str, int] = {}
        self._code = code
        self._registered: dict[str, Registered] = {}
        self._older: dict[tuple[str, int], Definition] = {}
        self._read_at = float("-inf")
        self._turn = asyncio.Lock()

    async def version_of(self, key: str) -> int:
        """Returns the current version of a definition. Raises UnknownDefinition."""
        if key not in self._code.keys:
            return (await self.read_registered(key)).version
        if key not in self.versions:
            async with self._turn:
                if key not in self.versions:
                    await self._register_code()
        return self.versions[key]

    def forget(self) -> None:
        """Drops all versions: the database refused one of them, so it was created again."""
        self.versions.clear()
        self._registered.clear()
        self._older.clear()

    async def _register_code(self) -> None:
        changes = await self.store.sync_definitions(self._code.definitions)
        self.versions |= {change.key: change.version for change in changes}
        for line in describe_changes(changes):
            log.info("%s", line)

    async def read_registered(self, key: str) -> Registered:
        """Returns a definition as the database has it, at most 30 s old. Raises UnknownDefinition."""
        async with self._turn:
            if key not in self._registered or monotonic() - self._read_at > FRESH:
                found = await self.store.definitions()
                self._registered = {each.definition.key: each for each in found}
                self._read_at = monotonic()
        if key not in self._registered:
            raise unknown_definition(key, tuple(self._registered))
        return self._registered[key]

    async def read_version(self, key: str, version: int | None) -> Definition | None:
        """Returns the content of this version, or of the current one; None for an unknown version."""
        if version is None:
            return (await self.read_registered(key)).definition
        if (key, version) not in self._older:
            found = await self.store.definition_version(key, version)
            if found is None:
                return None
            self._older[key, version] = found
        return self._older[key, version]

"""The definitions in the database as one process knows them: current versions, registered content, older versions."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from leasehold.model.definition import Definition, Registered, describe_changes, unknown_definition
from leasehold.store import Store

log = logging.getLogger("leasehold")

# Seconds after which definitions are read again.
FRESH = 30.0
_NONE: Mapping[str, int] = {}


class CodeDefinitions(Protocol):
    """The definitions whose handlers are part of this program."""

    @property
    def keys(self) -> Sequence[str]: ...

    @property
    def definitions(self) -> Sequence[Definition]: ...


class Catalog:
    """Registers the definitions of the code when one of them is first needed, and remembers their versions.

    Every 30 s, the next enqueue asks whether an administrator has changed one of them meanwhile.
    """

    def __init__(
        self, store: Store, code: CodeDefinitions, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self._monotonic = monotonic
        self.schemas: dict[str, Definition] = {}
        """Definitions of the code whose schema an administrator has set: payloads have to fit this one, too."""
        self._code = code
        self._versions: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._fresh_until = float("-inf")
        self._registered: dict[str, Registered] = {}
        self._older: dict[tuple[str, int], Definition] = {}
        self._read_at = float("-inf")
        self._turn = asyncio.Lock()

    @property
    def versions(self) -> Mapping[str, int]:
        """The versions of the code's definitions, by key; empty if they have to be looked up."""
        return self._versions if self._monotonic() < self._fresh_until else _NONE

    async def version_of(self, key: str) -> int:
        """Returns the version that new jobs of a definition get. Raises UnknownDefinition."""
        if key not in self._code.keys:
            return (await self.read_registered(key)).version
        if key not in self.versions:
            async with self._turn:
                if key not in self.versions:
                    await self._look_up()
        return self._versions[key]

    def forget(self) -> None:
        """Drops all versions: the database refused one of them, so it was created again."""
        self._versions.clear()
        self._registered.clear()
        self._older.clear()

    async def _look_up(self) -> None:
        if not self._versions or set(self._code.keys) - self._versions.keys():
            await self._register_code(adopt=True)
        elif await self._has_changed():
            await self._register_code(adopt=False)
        self._fresh_until = self._monotonic() + FRESH

    async def _has_changed(self) -> bool:
        """Returns whether an administrator has changed a definition of the code since it was registered."""
        await self._read()
        known = {key: registered.revision for key, registered in self._registered.items()}
        return any(known.get(key) != revision for key, revision in self._revisions.items())

    async def _register_code(self, *, adopt: bool) -> None:
        """Registers the code. Without `adopt`, code that another release has replaced meanwhile stays replaced."""
        found = self._code.definitions
        changes = await self.store.sync_definitions(found, adopt=adopt)
        self._versions = {change.key: change.version for change in changes}
        self._revisions = {change.key: change.revision for change in changes}
        kept = {change.key: change.overridden["schema"][1] for change in changes if "schema" in change.overridden}
        self.schemas = {each.key: replace(each, schema=kept[each.key]) for each in found if each.key in kept}
        if adopt:
            for line in describe_changes(changes):
                log.info("%s", line)

    async def _read(self) -> None:
        found = await self.store.definitions()
        self._registered = {each.definition.key: each for each in found}
        self._read_at = self._monotonic()

    async def read_registered(self, key: str) -> Registered:
        """Returns a definition as the database has it, at most 30 s old. Raises UnknownDefinition."""
        async with self._turn:
            if key not in self._registered or self._monotonic() - self._read_at > FRESH:
                await self._read()
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

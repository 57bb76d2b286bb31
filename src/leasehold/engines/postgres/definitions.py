"""The definitions in Postgres: registered by code, in versions, under one lock."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import asyncpg

from leasehold.engines.postgres import definition_rows, locks
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput, UnknownDefinition, Unreachable
from leasehold.model.definition import Change, Definition, Registered, differences, no_such_definition

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class _LockIsHeld(Exception):
    """Another session kept the lock of the definitions for the whole wait."""


class PostgresDefinitions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sync_definitions(self, found: Sequence[Definition]) -> Sequence[Change]:
        for definition in found:
            definition.check_registrable()
        if len({definition.key for definition in found}) < len(found):
            raise InvalidInput(
                "two definitions have the same key. Nothing was registered.", fix="Give one of them another key."
            )
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                if (known := await self._without_writing(connection, found)) is not None:
                    return known
                try:
                    return await self._under_lock(connection, found)
                except _LockIsHeld as error:
                    # Other processes that had the lock in turn, as when a fleet starts, may have written the same.
                    if (known := await self._without_writing(connection, found)) is not None:
                        return known
                    raise await self._no_lock(connection) from error

    async def _without_writing(self, connection: "Connection", found: Sequence[Definition]) -> list[Change] | None:
        """Returns the answer of a sync that has nothing to write, by reads alone. None: a sync has to write.

        It takes no lock: any role that may connect can hold that, and each process begins with a sync.
        """
        current = await self._current(connection)
        differs = not all(_is_current(each, current.get(each.key)) for each in found)
        if differs and await self._may_register(connection):
            return None
        return [await self._sync(connection, each, current.get(each.key)) for each in found]

    async def _under_lock(self, connection: "Connection", found: Sequence[Definition]) -> list[Change]:
        # It must see what was committed while it waited for the lock, whatever isolation the database prefers.
        async with connection.transaction(isolation="read_committed"):
            await locks.limit_waits(self._database, connection, locks.LONGEST_WAIT)
            try:
                await self._database.fetch_on(connection, "administration/lock_definitions")
            except asyncpg.LockNotAvailableError as error:
                raise _LockIsHeld from error
            await locks.limit_waits(self._database, connection, locks.NO_LIMIT)
            current = await self._current(connection)
            return [await self._sync(connection, each, current.get(each.key)) for each in found]

    async def _no_lock(self, connection: "Connection") -> Unreachable:
        held = await locks.holders(self._database, connection, locks.DEFINITIONS)
        told = Unreachable(
            f'definitions changed, and the lock under which those of "{self._database.schema}" are registered stayed '
            f"held for {locks.LONGEST_WAIT}, by {'; '.join(held) or 'a session that has ended since'}. "
            "Nothing was registered.",
            fix="Try again; a worker does so by itself. A session that holds the lock for longer is none of ours: "
            "end it by select pg_terminate_backend(PID), and revoke CONNECT on the database from its role.",
            code="LH-3005",
        )
        told.too_slow = True
        return told

    async def _current(self, connection: "Connection") -> dict[str, Registered]:
        known = await self._database.fetch_on(connection, "administration/definitions")
        return {row["key"]: definition_rows.read_registered(row) for row in known}

    async def _sync(self, connection: "Connection", definition: Definition, current: Registered | None) -> Change:
        if current is None:
            await self._add_version(connection, definition, 1)
            return Change(definition.key, 1, {}, created=True)
        if _is_current(definition, current):
            return Change(definition.key, current.version, {}, created=False)
        version = await self._make_current(connection, definition)
        return Change(definition.key, version, differences(current.definition, definition), created=False)

    async def _make_current(self, connection: "Connection", definition: Definition) -> int:
        """Makes an older version with this content current, or adds a version.

        Old and new processes that restart in turn, as in a rolling deploy, must not add a version each time.
        """
        versions = await self._database.fetch_on(connection, "administration/versions", key=definition.key)
        for row in versions:
            if definition_rows.read(row) == (definition, ()):
                same: int = row["version"]
                # A producer's role may only use the version of its code, as older producers do in a rolling deploy.
                if await self._may_register(connection):
                    await self._database.fetch_on(
                        connection, "administration/make_current", key=definition.key, version=same
                    )
                return same
        newest: int = versions[0]["version"]
        await self._add_version(connection, definition, newest + 1)
        return newest + 1

    async def _add_version(self, connection: "Connection", definition: Definition, version: int) -> None:
        try:
            await self._database.fetch_on(
                connection, "administration/add_version", version=version, **definition_rows.columns(definition)
            )
        except asyncpg.InsufficientPrivilegeError as error:
            raise InvalidInput(
                f'the definition "{definition.key}" is not registered as this code has it, and the role of this '
                f"connection may not register definitions ({error}). Nothing was registered.",
                fix="Start a worker with this code, or run as a worker's role: leasehold definitions sync app.py",
            ) from error

    async def _may_register(self, connection: "Connection") -> bool:
        ((may,),) = await self._database.fetch_on(connection, "administration/may_register")
        return bool(may)

    async def definitions(self) -> Sequence[Registered]:
        found = await self._database.fetch("administration/definitions")
        return [definition_rows.read_registered(row) for row in found]

    async def definition_version(self, key: str, version: int) -> Definition | None:
        found = await self._database.fetch("fleet/definition_versions", keys=[key], versions=[version])
        return definition_rows.read(found[0])[0] if found else None

    async def activate(self, definition: str, active: bool) -> None:
        (row,) = await self._database.fetch("administration/activate", key=definition, active=active)
        if not row["count"]:
            raise await self._no_such_definition(definition)

    async def _no_such_definition(self, definition: str) -> UnknownDefinition:
        return no_such_definition(definition, [known.definition.key for known in await self.definitions()])


def _is_current(definition: Definition, current: Registered | None) -> bool:
    return current is not None and definition == current.definition and not current.unreadable

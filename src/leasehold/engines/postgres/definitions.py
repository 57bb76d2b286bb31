"""The definitions in Postgres: registered by code, in versions, overridden by administrators, under one lock."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import orjson

from leasehold.engines.postgres import definition_rows, locks
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput, UnknownDefinition, Unreachable
from leasehold.model.definition import Change, Definition, Registered, differences, no_such_definition
from leasehold.model.overrides import (
    OverrideChange,
    already_exists,
    as_json,
    effective,
    is_active,
    overridden,
    plan_override,
    require_revision,
)

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class _LockIsHeld(Exception):
    """Another session kept the lock of the definitions for the whole wait."""


class PostgresDefinitions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sync_definitions(self, found: Sequence[Definition], *, adopt: bool = True) -> Sequence[Change]:
        for definition in found:
            definition.check_registrable()
        if len({definition.key for definition in found}) < len(found):
            raise InvalidInput(
                "two definitions have the same key. Nothing was registered.", fix="Give one of them another key."
            )
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                if (known := await self._without_writing(connection, found, adopt)) is not None:
                    return known
                try:
                    async with self._lock(connection):
                        return await self._sync_all(connection, found, adopt)
                except _LockIsHeld as error:
                    # Other processes that had the lock in turn, as when a fleet starts, may have written the same.
                    if (known := await self._without_writing(connection, found, adopt)) is not None:
                        return known
                    raise await self._no_lock(connection) from error

    async def _without_writing(
        self, connection: "Connection", found: Sequence[Definition], adopt: bool
    ) -> list[Change] | None:
        """Returns the answer of a sync that has nothing to write, by reads alone. None: a sync has to write.

        It takes no lock: any role that may connect can hold that, and each process begins with a sync.
        """
        current = await self._current(connection)
        same = [await self._is_current(connection, each, current.get(each.key)) for each in found]
        if not all(same) and await self._may_register(connection):
            return None
        return [await self._sync(connection, each, current.get(each.key), adopt) for each in found]

    async def _sync_all(self, connection: "Connection", found: Sequence[Definition], adopt: bool) -> list[Change]:
        current = await self._current(connection)
        return [await self._sync(connection, each, current.get(each.key), adopt) for each in found]

    @asynccontextmanager
    async def _lock(self, connection: "Connection") -> AsyncIterator[None]:
        """Begins a transaction that alone may change definitions. Raises _LockIsHeld."""
        # It must see what was committed while it waited for the lock, whatever isolation the database prefers.
        async with connection.transaction(isolation="read_committed"):
            await locks.limit_waits(self._database, connection, locks.LONGEST_WAIT)
            try:
                await self._database.fetch_on(connection, "administration/lock_definitions")
            except asyncpg.LockNotAvailableError as error:
                raise _LockIsHeld from error
            await locks.limit_waits(self._database, connection, locks.NO_LIMIT)
            yield

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

    async def _base(self, connection: "Connection", current: Registered) -> Definition:
        """Returns the content without overrides."""
        if current.base is None:
            return current.definition
        (row,) = await self._database.fetch_on(
            connection, "fleet/definition_versions", keys=[current.definition.key], versions=[current.base]
        )
        return definition_rows.read(row)[0]

    async def _is_current(self, connection: "Connection", definition: Definition, current: Registered | None) -> bool:
        if current is None or current.unreadable or not current.declared:
            return False
        applied = effective(definition, current.overrides)
        return applied == current.definition and definition == await self._base(connection, current)

    async def _sync(
        self, connection: "Connection", definition: Definition, current: Registered | None, adopt: bool
    ) -> Change:
        if current is None:
            await self._add_version(connection, definition, 1)
            return Change(definition.key, 1, {}, created=True)
        kept = overridden(definition, current.overrides)
        if await self._is_current(connection, definition, current):
            return Change(definition.key, current.version, {}, False, kept, current.revision)
        applied = effective(definition, current.overrides)
        version = await self._make_current(connection, definition, applied, adopt)
        changed = differences(current.definition, applied)
        return Change(definition.key, version, changed, False, kept, current.revision)

    async def _make_current(
        self, connection: "Connection", definition: Definition, applied: Definition, adopt: bool
    ) -> int:
        """Makes an older version with this content current, or adds a version.

        Old and new processes that restart in turn, as in a rolling deploy, must not add a version each time.
        """
        versions = await self._versions(connection, definition.key)
        base = versions.find(definition, None)
        if base is None:
            base = await self._add_next(connection, versions, definition, None, adopt and applied == definition)
            if applied == definition:
                return base
        version = base if applied == definition else versions.find(applied, base)
        # A producer's role may only use the version of its code, as older producers do in a rolling deploy.
        if not await self._may_register(connection):
            return version or base
        if version is None:
            return await self._add_next(connection, versions, applied, base, adopt)
        if adopt:
            await self._database.fetch_on(
                connection, "administration/make_current", key=definition.key, version=version
            )
        return version

    async def _versions(self, connection: "Connection", key: str) -> "_Versions":
        return _Versions(await self._database.fetch_on(connection, "administration/versions", key=key))

    async def _add_next(
        self,
        connection: "Connection",
        versions: "_Versions",
        content: Definition,
        base: int | None,
        current: bool,
        declared: bool = True,
    ) -> int:
        versions.newest += 1
        await self._add_version(connection, content, versions.newest, base=base, current=current, declared=declared)
        return versions.newest

    async def _add_version(
        self,
        connection: "Connection",
        definition: Definition,
        version: int,
        *,
        base: int | None = None,
        current: bool = True,
        declared: bool = True,
    ) -> None:
        try:
            await self._database.fetch_on(
                connection,
                "administration/add_version",
                version=version,
                base=base,
                current=current,
                declared=declared,
                **definition_rows.columns(definition),
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

    async def override(
        self, key: str, change: OverrideChange, *, revision: int | None = None, create: bool = False
    ) -> Registered:
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                try:
                    async with self._lock(connection):
                        await self._override(connection, key, change, revision, create)
                        return (await self._current(connection))[key]
                except _LockIsHeld as error:
                    raise await self._no_lock(connection) from error

    async def _override(
        self, connection: "Connection", key: str, change: OverrideChange, revision: int | None, create: bool
    ) -> None:
        known = await self._current(connection)
        if create:
            if key in known:
                raise already_exists(key)
            await self._add_version(connection, Definition(key), 1, declared=False)
            known = await self._current(connection)
        elif key not in known:
            raise no_such_definition(key, tuple(known))
        current = known[key]
        require_revision(current, revision)
        base = await self._base(connection, current)
        ((now,),) = await self._database.fetch_on(connection, "doctor/clock")
        after = plan_override(current, base, change, now)
        await self._database.fetch_on(
            connection,
            "administration/override",
            key=key,
            version=await self._applied_version(connection, current, base, effective(base, after)),
            overrides=orjson.dumps(as_json(after)).decode(),
            active=is_active(current, change),
        )

    async def _applied_version(
        self, connection: "Connection", current: Registered, base: Definition, applied: Definition
    ) -> int:
        number = current.base or current.version
        if applied == base:
            return number
        versions = await self._versions(connection, base.key)
        found = versions.find(applied, number)
        return found or await self._add_next(connection, versions, applied, number, False, current.declared)

    async def activate(self, definition: str, active: bool) -> None:
        (row,) = await self._database.fetch("administration/activate", key=definition, active=active)
        if not row["count"]:
            raise await self._no_such_definition(definition)

    async def _no_such_definition(self, definition: str) -> UnknownDefinition:
        return no_such_definition(definition, [known.definition.key for known in await self.definitions()])


class _Versions:
    """All versions of a definition."""

    def __init__(self, rows: Sequence[asyncpg.Record]) -> None:
        self._rows = rows
        self.newest: int = rows[0]["version"]

    def find(self, content: Definition, base: int | None) -> int | None:
        """Returns the version with this content that has overrides on this base; None: without overrides."""
        rows = (row for row in self._rows if row["base"] == base and definition_rows.read(row) == (content, ()))
        return next((row["version"] for row in rows), None)

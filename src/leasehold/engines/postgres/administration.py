"""What no tenant may do: definitions, limits, pauses, and looking beyond one's own jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.engines.postgres import pages, rows
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput, UnknownDefinition
from leasehold.model.definition import Change, Definition, Registered, differences, no_such_definition
from leasehold.model.job import JobId, TenantId, job_id
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.model.status import Status
from leasehold.store import Filter, Page

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class PostgresAdministration:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sync_definitions(self, found: Sequence[Definition]) -> Sequence[Change]:
        for definition in found:
            definition.check_schema()
        if len({definition.key for definition in found}) < len(found):
            raise InvalidInput(
                "two definitions have the same key. Nothing was registered.", fix="Give one of them another key."
            )
        with self._database.translated():
            # It must see what was committed while it waited for the lock, whatever isolation the database prefers.
            async with self._database.connection() as connection, connection.transaction(isolation="read_committed"):
                await self._database.fetch_on(connection, "administration/lock_definitions")
                known = await self._database.fetch_on(connection, "administration/definitions")
                current = {row["key"]: rows.registered(row) for row in known}
                return [await self._sync(connection, each, current.get(each.key)) for each in found]

    async def _sync(self, connection: "Connection", definition: Definition, current: Registered | None) -> Change:
        if current is None:
            await self._add_version(connection, definition, 1)
            return Change(definition.key, 1, {}, created=True)
        if definition == current.definition:
            return Change(definition.key, current.version, {}, created=False)
        version = await self._made_current(connection, definition)
        return Change(definition.key, version, differences(current.definition, definition), created=False)

    async def _made_current(self, connection: "Connection", definition: Definition) -> int:
        """Old and new processes that restart in turn, as in a rolling deploy, must not add a version each time."""
        versions = await self._database.fetch_on(connection, "administration/versions", key=definition.key)
        for row in versions:
            if rows.definition(row) == definition:
                same: int = row["version"]
                await self._database.fetch_on(
                    connection, "administration/make_current", key=definition.key, version=same
                )
                return same
        newest: int = versions[0]["version"]
        await self._add_version(connection, definition, newest + 1)
        return newest + 1

    async def _add_version(self, connection: "Connection", definition: Definition, version: int) -> None:
        await self._database.fetch_on(
            connection, "administration/add_version", version=version, **rows.definition_columns(definition)
        )

    async def definitions(self) -> Sequence[Registered]:
        return [rows.registered(row) for row in await self._database.fetch("administration/definitions")]

    async def tenants(self, limit: int = 1000) -> Sequence[TenantId]:
        return [TenantId(row["id"]) for row in await self._database.fetch("administration/tenants", limit=limit)]

    async def everywhere(self, where: Filter, cursor: str | None, limit: int) -> Page:
        found = await self._database.fetch(
            "administration/everywhere",
            limit=limit + 1,
            only_running=set(where.statuses) == {Status.RUNNING},
            **pages.behind_everywhere(cursor),
            **pages.filtered(where),
        )
        return pages.page(found, limit, cursor=pages.cursor_everywhere)

    async def whose(self, job: JobId) -> Sequence[TenantId]:
        return [TenantId(row["id"]) for row in await self._database.fetch("administration/whose", job=job_id(job))]

    async def activate(self, definition: str, active: bool) -> None:
        (row,) = await self._database.fetch("administration/activate", key=definition, active=active)
        if not row["count"]:
            raise await self._no_such(definition)

    async def limit(self, scope: Scope, limits: Limits) -> None:
        changed = await self._database.fetch(
            "administration/limit",
            kind=scope.kind.value,
            key=scope.key,
            max_running=limits.max_running,
            rate_count=limits.rate and limits.rate.count,
            rate_period=limits.rate and limits.rate.period,
        )
        if not changed:
            raise await self._no_such(scope.key)

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        changed = await self._database.fetch(
            "administration/pause",
            kind=scope.kind.value,
            key=scope.key,
            reason=pause and pause.why,
            until=pause and pause.until,
        )
        if not changed:
            raise await self._no_such(scope.key)

    async def _no_such(self, definition: str) -> UnknownDefinition:
        return no_such_definition(definition, [known.definition.key for known in await self.definitions()])

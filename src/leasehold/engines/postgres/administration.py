"""What no tenant may do: definitions, limits and pauses."""

from collections.abc import Sequence

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput, UnknownDefinition
from leasehold.model.definition import Change, Definition, Registered, differences
from leasehold.model.limits import Limits, Pause, Scope


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
        changes: list[Change] = []
        with self._database.translated():
            async with self._database.connection() as connection, connection.transaction():
                await self._database.fetch_on(connection, "administration/lock_definitions")
                known = await self._database.fetch_on(connection, "administration/definitions")
                registered = {row["key"]: (rows.definition(row), int(row["version"])) for row in known}
                for definition in found:
                    before, version = registered.get(definition.key, (None, 0))
                    if definition == before:
                        continue
                    changed = {} if before is None else differences(before, definition)
                    changes.append(Change(definition.key, version + 1, changed, created=before is None))
                    await self._database.fetch_on(
                        connection,
                        "administration/add_version",
                        version=version + 1,
                        **rows.definition_columns(definition),
                    )
        return changes

    async def definitions(self) -> Sequence[Registered]:
        found = await self._database.fetch("administration/definitions")
        return [Registered(rows.definition(row), row["version"], row["active"]) for row in found]

    async def activate(self, definition: str, active: bool) -> None:
        (row,) = await self._database.fetch("administration/activate", key=definition, active=active)
        if not row["count"]:
            raise _no_such(definition)

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
            raise _no_such(scope.key)

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        changed = await self._database.fetch(
            "administration/pause",
            kind=scope.kind.value,
            key=scope.key,
            reason=pause and pause.why,
            until=pause and pause.until,
        )
        if not changed:
            raise _no_such(scope.key)


def _no_such(definition: str) -> UnknownDefinition:
    return UnknownDefinition(f"there is no definition {definition!r}. Nothing was changed.", fix="Register it first.")

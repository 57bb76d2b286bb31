"""The triggers of all owners in Postgres, and the sync of those that code declares."""

from collections.abc import Sequence

from leasehold.engines.postgres import trigger_rows
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.triggers import PostgresTriggers
from leasehold.model.job import TenantId
from leasehold.model.trigger import AllTenants, Trigger, TriggerId
from leasehold.store import DeclaredTrigger
from leasehold.store.trigger_sync import TriggerSync


class PostgresAllTriggers(TriggerSync):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        found = await self._database.fetch("administration/triggers", after=after, limit=limit)
        return [trigger_rows.shown(row) for row in found]

    async def get(self, trigger: TriggerId) -> Trigger | None:
        found = await self._database.fetch("administration/trigger", trigger=trigger)
        return trigger_rows.shown(found[0]) if found else None

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        found = await self._database.fetch("administration/search_triggers", label=label, end=end, limit=limit)
        return [trigger_rows.shown(row) for row in found]

    async def _declared_before(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str]
    ) -> Sequence[Trigger]:
        rows = await self._database.fetch(
            "administration/triggers_of_code", triggers=[each.id for each in declared], definitions=definitions
        )
        return [trigger_rows.shown(row) for row in rows]

    def _of(self, tenant: TenantId | AllTenants) -> PostgresTriggers:
        return PostgresTriggers(self._database, tenant)

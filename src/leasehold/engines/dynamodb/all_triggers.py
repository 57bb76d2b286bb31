"""The triggers of all owners in DynamoDB, and the sync of those that code declares.

Lists are read from the listing index, which lags behind by some milliseconds. A sync reads the triggers that it
declares from the table itself, so that only a removal can come one sync later.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from leasehold.engines.dynamodb import trigger_items as items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.table import LISTING, Table
from leasehold.engines.dynamodb.triggers import DynamoTriggers, best
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.job import TenantId
from leasehold.model.trigger import AllTenants, Origin, Trigger, TriggerId
from leasehold.store import DeclaredTrigger
from leasehold.store.trigger_sync import TriggerSync

AT_ONCE = 100


class DynamoAllTriggers(TriggerSync):
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        found: list[Trigger] = []
        async for item in self.every(after):
            if not items.is_deleted(item):
                found.append(items.shown(item))
            if len(found) == limit:
                break
        return found

    async def get(self, trigger: TriggerId) -> Trigger | None:
        values = {"pk": items.LISTED, "id": trigger}
        page = await self._table.page("#list_pk = :pk AND #list_sk = :id", values, index=LISTING)
        found = await self._table.get_many([(item["PK"], item["SK"]) for item in page.items])
        return next((items.shown(item) for item in found.values() if not items.is_deleted(item)), None)

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        return best(label, end, limit, [item async for item in self.every() if not items.is_deleted(item)])

    async def every(self, after: TriggerId | None = None) -> AsyncIterator[Item]:
        """Yields all triggers by their ids, deleted ones among them, each as it is now."""
        values = {"pk": items.LISTED, "after": after or "0"}
        place: Mapping[str, Any] | None = None
        while True:
            page = await self._table.page(
                "#list_pk = :pk AND #list_sk > :after", values, index=LISTING, limit=AT_ONCE, after=place
            )
            keys = [(item["PK"], item["SK"]) for item in page.items]
            found = await self._table.get_many(keys) if keys else {}
            for key in keys:
                if key in found:
                    yield found[key]
            place = page.next
            if place is None:
                return

    async def _declared_before(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str]
    ) -> Sequence[Trigger]:
        keys = [items.trigger_key(each.tenant, each.id) for each in declared]
        found = await self._table.get_many(keys) if keys else {}
        others = [item async for item in self.every() if _is_of(item, definitions)]
        by_id = {item["id"]: item for item in [*others, *found.values()]}
        return [items.shown(item) for item in by_id.values()]

    def _of(self, tenant: TenantId | AllTenants) -> DynamoTriggers:
        return DynamoTriggers(self._table, self._clock, tenant)


def _is_of(item: Item, definitions: Sequence[str]) -> bool:
    return item["origin"] == Origin.CODE and item["definition"] in definitions and not items.is_deleted(item)

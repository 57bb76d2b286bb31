"""The event triggers of tenants, cached. One read of two small items tells whether the cache is current."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from leasehold.engines.dynamodb import definition_items
from leasehold.engines.dynamodb import trigger_items as items
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.keys import read_timestamp
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import InvalidInput
from leasehold.model.definition import Registered
from leasehold.model.event import matches
from leasehold.model.event_plan import Candidate
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, AllTenants, Trigger, TriggerId

# So many owners are kept. An emit of another one reads its triggers again.
MOST = 10_000
Owner = TenantId | AllTenants


@dataclass(frozen=True, slots=True)
class Known:
    """A trigger, or why this release can't read it."""

    id: TriggerId
    owner: Owner
    definition: str
    pattern: str
    created_at: datetime
    trigger: Trigger | str


class EventTriggers:
    def __init__(self, table: Table, definitions: Definitions) -> None:
        self._table = table
        self._definitions = definitions
        self._cached: dict[Owner, tuple[int, Sequence[Known]]] = {}

    async def matching(self, tenant: TenantId, name: str, at: datetime) -> list[Known]:
        """Returns live triggers whose pattern selects the event, the oldest first. One made after it does not."""
        owners: tuple[Owner, ...] = (tenant, ALL)
        versions = await self._table.get_many(items.version_key(owner) for owner in owners)
        found = await asyncio.gather(
            *(self._read(owner, _version(versions.get(items.version_key(owner)))) for owner in owners)
        )
        fit = [known for each in found for known in each if known.created_at <= at and matches(known.pattern, name)]
        return sorted(fit, key=lambda known: known.id)

    async def candidates(self, found: Sequence[Known]) -> list[Candidate]:
        current = await self.registered({known.definition for known in found})
        return [Candidate(known.id, known.trigger, current.get(known.definition)) for known in found]

    async def registered(self, keys: set[str]) -> dict[str, Registered]:
        found = await self._definitions.current(keys) if keys else {}
        return {key: definition_items.read_registered(item) for key, item in found.items()}

    async def _read(self, owner: Owner, version: int) -> Sequence[Known]:
        if version == 0:
            return ()
        if (cached := self._cached.get(owner)) is not None and cached[0] == version:
            return cached[1]
        condition = "#PK = :pk AND begins_with(#SK, :trigger)"
        pages = self._table.query(condition, {"pk": items.owner_pk(owner), "trigger": items.TRIGGER})
        live = [_known(item) async for item in pages if _is_live(item)]
        if len(self._cached) >= MOST:
            self._cached.clear()
        self._cached[owner] = version, live
        return live


def _version(item: Item | None) -> int:
    return item["version"] if item else 0


def _is_live(item: Item) -> bool:
    return item["kind"] == "event" and item["enabled"] and not items.is_deleted(item)


def _known(item: Item) -> Known:
    trigger: Trigger | str
    try:
        trigger = items.trigger(item)
    except InvalidInput as error:
        trigger = error.happened
    created_at = read_timestamp(item["created_at"])
    return Known(TriggerId(item["id"]), items.owner(item), item["definition"], item["event"], created_at, trigger)

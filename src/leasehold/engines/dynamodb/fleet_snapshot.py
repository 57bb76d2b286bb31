"""Figures of the fleet in DynamoDB: one item, which one process at a time replaces.

The due index has every job that waits or runs, by definition. The first entries of each partition are counted, so
that a measurement costs the same whatever waits behind them.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import orjson

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.holds import Holds, HoldStore
from leasehold.engines.dynamodb.items import RETRYING, RUNNING
from leasehold.engines.dynamodb.keys import read_timestamp, timestamp
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.table import DUE, Table, Update, gather
from leasehold.engines.dynamodb.trigger_items import DUE_SCHEDULES
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.fleet_snapshot import DepthCounts, FleetSnapshot, read_snapshot

SNAPSHOT: keys.Key = ("snapshot", "fleet")
# Each measurement reads all partitions of the due index, which costs read units.
LEAST_AGE = timedelta(minutes=1)
# Entries of one partition: about 13 read units.
COUNTED = 1000
UNSERVED = 100
IS_OLD = "attribute_not_exists(#begun_at) OR #begun_at < :latest"


class DynamoSnapshots:
    def __init__(
        self, table: Table, clock: Clock, definitions: Definitions, holds: HoldStore, registrations: Registrations
    ) -> None:
        self._table = table
        self._clock = clock
        self._definitions = definitions
        self._holds = holds
        self._registrations = registrations

    async def read(self, max_age: timedelta) -> FleetSnapshot | None:
        now = await self._clock.now()
        found = await self._table.get(SNAPSHOT) or {}
        latest = timestamp(now - max(max_age, LEAST_AGE))
        if (found.get("begun_at") or "") < latest and await self._begin(now, latest):
            measured = await self._measure(now)
            text = orjson.dumps(measured.as_document()).decode()
            await self._table.update(Update(SNAPSHOT, {"figures": text, "taken_at": timestamp(now)}), returns="NONE")
            return measured
        if "figures" not in found:
            return None
        age = now - read_timestamp(found["taken_at"])
        return read_snapshot(orjson.loads(found["figures"]), age.total_seconds())

    async def _begin(self, now: datetime, latest: str) -> bool:
        """Returns whether this process measures: of those that find old figures at once, one does."""
        change = Update(SNAPSHOT, {"begun_at": timestamp(now)}, IS_OLD, {"latest": latest})
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed:
            return False
        return True

    async def _measure(self, now: datetime) -> FleetSnapshot:
        names = await self._definitions.names()
        holds, workers = await self._holds.read(), await self._registrations.living()
        living = [worker for worker in workers if worker.lease_expires_at > now]
        served = {name for worker in living for name in worker.serves.definitions}
        depths, oldest = DepthCounts(), {}
        for name, entries in zip(names, await gather(self._entries(name) for name in names), strict=True):
            for entry in entries:
                depths.add(keys.read_job_pk(entry["PK"])[0], name, _state(entry, now))
            if (wait := _longest_wait(name, entries, holds, now)) is not None:
                oldest[name] = wait
        return FleetSnapshot(
            0.0,
            depths.by_tenant(),
            {(name, "ready"): 0 for name in names if name not in holds.inactive} | depths.by_definition(),
            oldest,
            len(living),
            sum(worker.facts.slots for worker in living),
            sorted(set(names) - served - holds.inactive)[:UNSERVED],
            await self._overdue(now),
        )

    async def _entries(self, definition: str) -> list[Item]:
        shards = self._table.shards
        partitions = [keys.due_pk(definition, shard, shards) for shard in range(shards)]
        pages = await gather(
            self._table.page("#due_pk = :pk", {"pk": partition}, index=DUE, limit=COUNTED) for partition in partitions
        )
        return [item for page in pages for item in page.items]

    async def _overdue(self, now: datetime) -> float:
        values = {"pk": DUE_SCHEDULES, "first": keys.DUE_FROM}
        page = await self._table.page("#due_pk = :pk AND #due_sk > :first", values, index=DUE, limit=1)
        late = [(now - keys.read_due_sk(entry["due_sk"])).total_seconds() for entry in page.items]
        return max([0.0, *late])


def _state(entry: Item, now: datetime) -> str:
    if entry["status"] == RUNNING:
        return "running"
    if keys.read_due_sk(entry["due_sk"]) <= now:
        return "ready"
    return "retrying" if entry["status"] == RETRYING else "scheduled"


def _longest_wait(definition: str, entries: Sequence[Item], holds: Holds, now: datetime) -> float | None:
    if not holds.may_start(definition, now):
        return None
    waits = [
        (now - keys.read_due_sk(entry["due_sk"])).total_seconds()
        for entry in entries
        if _state(entry, now) == "ready" and not holds.is_paused(keys.read_job_pk(entry["PK"])[0], now)
    ]
    return max(waits, default=None)

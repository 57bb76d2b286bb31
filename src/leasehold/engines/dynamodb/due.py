"""The due index: jobs that wait, by definition and time, and running jobs by the end of their locks.

Each definition has a partition of the index for each shard of the table. Nothing is filtered after a limit but other
tenants, of which a worker may serve few, and locks that have expired: pages are followed until enough is found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.items import RUNNING
from leasehold.engines.dynamodb.table import DUE, Table, gather
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.job import TenantId

# Pages of one partition that one look reads at most, when it finds nothing for this worker on them.
PAGES = 10

Accepts = Callable[[TenantId], bool]


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """An entry of the index: a job that is due."""

    sk: str
    pk: str
    definition: str = field(compare=False)
    tenant: TenantId = field(compare=False)


@dataclass(slots=True)
class Look:
    """The due jobs that a look has found, the oldest first. `more`: there may be others behind them.

    `expired` has running jobs whose lock ran out, longer ago than clocks may differ.
    """

    entries: list[Entry] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    more: bool = False


@dataclass(slots=True)
class Positions:
    """Where the next look goes on in partitions whose first pages had nothing for this worker."""

    after: dict[str, Mapping[str, Any]] = field(default_factory=dict)


class DueIndex:
    def __init__(self, table: Table, items: int, skew: timedelta) -> None:
        self._table = table
        self._items = items
        self._skew = skew

    async def look(
        self, definitions: Sequence[str], now: datetime, wanted: int, accepts: Accepts, positions: Positions
    ) -> Look:
        """Finds due jobs of these definitions: about `wanted` in each partition, if there are as many."""
        found = Look()
        looks = await gather(
            self._look_at(definition, pk, now, wanted, accepts, positions)
            for definition in definitions
            for pk in self._partitions(definition)
        )
        for each in looks:
            found.entries += each.entries
            found.expired += each.expired
            found.more |= each.more
        found.entries.sort()
        return found

    async def _look_at(
        self, definition: str, pk: str, now: datetime, wanted: int, accepts: Accepts, positions: Positions
    ) -> Look:
        found = Look()
        after = positions.after.pop(pk, None)
        expired_before = keys.due_until(now - self._skew)
        for _ in range(PAGES):
            page = await self._table.page(
                "#due_pk = :pk AND #due_sk BETWEEN :from AND :until",
                {"pk": pk, "from": keys.DUE_FROM, "until": keys.due_until(now)},
                index=DUE,
                limit=max(self._items, wanted),
                after=after,
            )
            for item in page.items:
                if item["status"] == RUNNING:
                    found.expired += [item["PK"]] if item["due_sk"] < expired_before else []
                elif accepts(tenant := keys.read_job_pk(item["PK"])[0]):
                    found.entries.append(Entry(item["due_sk"], item["PK"], definition, tenant))
            after = page.next
            if after is None or len(found.entries) >= wanted:
                break
        found.more = after is not None
        if after is not None and not found.entries:
            positions.after[pk] = after
        return found

    async def look_behind(self, definitions: Sequence[str], now: datetime, accepts: Accepts) -> list[Entry]:
        """Finds the jobs that came due last: of tenants that came after another's backlog."""
        pages = await gather(
            self._table.page(
                "#due_pk = :pk AND #due_sk BETWEEN :from AND :until",
                {"pk": pk, "from": keys.DUE_FROM, "until": keys.due_until(now)},
                index=DUE,
                limit=self._items,
                backward=True,
            )
            for definition in definitions
            for pk in self._partitions(definition)
        )
        named = [(definition, pk) for definition in definitions for pk in self._partitions(definition)]
        found = [
            Entry(item["due_sk"], item["PK"], definition, tenant)
            for (definition, _), page in zip(named, pages, strict=True)
            for item in page.items
            if item["status"] != RUNNING and accepts(tenant := keys.read_job_pk(item["PK"])[0])
        ]
        return sorted(found)

    async def next_due(self, definitions: Sequence[str], now: datetime, accepts: Accepts) -> datetime | None:
        """Returns when the next job comes due that this worker may start; or when to look again, if that is far."""
        found = await gather(
            self._next_in(pk, now, accepts) for definition in definitions for pk in self._partitions(definition)
        )
        return min((moment for moment in found if moment is not None), default=None)

    async def _next_in(self, pk: str, now: datetime, accepts: Accepts) -> datetime | None:
        after, last = None, None
        for _ in range(PAGES):
            page = await self._table.page(
                "#due_pk = :pk AND #due_sk > :now",
                {"pk": pk, "now": keys.due_until(now)},
                index=DUE,
                limit=self._items,
                after=after,
            )
            for item in page.items:
                last = item
                if item["status"] != RUNNING and accepts(keys.read_job_pk(item["PK"])[0]):
                    return keys.read_due_sk(item["due_sk"])
            after = page.next
            if after is None:
                return None
        return keys.read_due_sk(last["due_sk"]) if last else None

    async def running(self, definition: str) -> list[Item]:
        """Returns the entries of all running jobs of a definition."""
        found: list[Item] = []
        for pk in self._partitions(definition):
            listed = self._table.query("#due_pk = :pk", {"pk": pk}, index=DUE)
            found += [item async for item in listed if item["status"] == RUNNING]
        return found

    def _partitions(self, definition: str) -> list[str]:
        shards = self._table.shards
        return [keys.due_pk(definition, shard, shards) for shard in range(shards)]

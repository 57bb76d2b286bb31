"""Watches jobs by the index that lists them: the newest ids of each tenant and status, compared with the look before.

A job that changes its status leaves one list and enters another. Jobs that are older than the newest of their list
change unseen.
"""

from collections.abc import Mapping

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.find import LISTED
from leasehold.engines.dynamodb.table import LISTING, Table, gather
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.model.job import JobId, TenantId
from leasehold.store.changes import Changed, Watched

NEWEST = 25
# Limits a reader of all tenants. Beyond it, each look tells that others may have changed.
MOST_TENANTS = 20
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 8.0
# Seconds for each tenant: a look costs a request for each status and shard of it.
PAUSE_OF_A_TENANT = 0.2


class DynamoWatcher:
    def __init__(self, table: Table, tenants: Tenants) -> None:
        self._table = table
        self._tenants = tenants
        self._lists: dict[TenantId, Lists] = {}
        self._knew_all = False
        self._pause = SHORTEST_PAUSE

    async def look(self, watched: Watched) -> Changed:
        first = await self._tenants.list(MOST_TENANTS + 1) if watched.everything else ()
        wanted = sorted(watched.tenants.union(first[:MOST_TENANTS]))
        lists = dict(zip(wanted, await gather(self._read(tenant) for tenant in wanted), strict=True))
        jobs = {
            tenant: changed
            for tenant, now in lists.items()
            # A tenant that the look before did not find among all is new.
            if (tenant in self._lists or self._knew_all) and (changed := _differing(self._lists.get(tenant, {}), now))
        }
        self._lists, self._knew_all = lists, watched.everything and len(first) <= MOST_TENANTS
        self._pause = SHORTEST_PAUSE if jobs else min(2 * self._pause, LONGEST_PAUSE)
        pause = max(self._pause, PAUSE_OF_A_TENANT * len(wanted))
        return Changed(pause, jobs, elsewhere=len(first) > MOST_TENANTS)

    async def _read(self, tenant: TenantId) -> "Lists":
        wanted = [(status, shard) for status in LISTED for shard in range(self._table.shards)]
        pages = await gather(
            self._table.page(
                "#list_pk = :pk",
                {"pk": keys.list_pk(tenant, status.value, shard)},
                index=LISTING,
                limit=NEWEST,
                backward=True,
            )
            for status, shard in wanted
        )
        return {
            f"{status.value} {shard}": tuple(item["list_sk"] for item in page.items)
            for (status, shard), page in zip(wanted, pages, strict=True)
        }


Lists = Mapping[str, tuple[str, ...]]
"""The newest ids of each status and shard, the greatest first."""


def _differing(before: Lists, now: Lists) -> frozenset[JobId]:
    """Compares down to the least id that both looks have seen: below it, a list may only have been cut elsewhere."""
    changed: set[str] = set()
    for name, ids in now.items():
        earlier = before.get(name, ())
        least = max(each[-1] if len(each) == NEWEST else "" for each in (ids, earlier))
        changed |= _from(least, ids) ^ _from(least, earlier)
    return frozenset(JobId(each) for each in changed)


def _from(least: str, ids: tuple[str, ...]) -> set[str]:
    return {each for each in ids if each >= least}

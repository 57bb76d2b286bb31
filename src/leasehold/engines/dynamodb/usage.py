"""Usage in DynamoDB: the hours, what the ledgers of workers have not moved there yet, and attempts that have ended
since a ledger was written. All reads are of items, not of indexes, so none of them lags behind.
"""

import asyncio
from collections.abc import Mapping, Sequence
from random import random

from leasehold.engines.dynamodb import hours, tally
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.keys import read_job_pk, read_timestamp
from leasehold.engines.dynamodb.ledger import Entry, Ledger, Ledgers
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.settle import Settling, look
from leasehold.engines.dynamodb.table import Table, gather
from leasehold.engines.dynamodb.tally import Ended
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.errors import TransactionConflict
from leasehold.model.job import TenantId, WorkerId
from leasehold.model.usage import HOUR, UsageQuery, UsageRow

# Each time a worker must have moved usage between two reads, which it does about once a minute.
TRIES = 20
LONGEST_PAUSE = 0.5


class DynamoUsage:
    def __init__(
        self, table: Table, clock: Clock, tenants: Tenants, ledgers: Ledgers, settling: Settling, fleet: Registrations
    ) -> None:
        self._table = table
        self._clock = clock
        self._tenants = tenants
        self._ledgers = ledgers
        self._settling = settling
        self._fleet = fleet

    async def add_up(self) -> None:
        """Moves the usage of this process's workers to the hours. Heartbeats move that of workers that are gone."""
        await self._settling.add_up()

    async def add_up_gone(self) -> None:
        """Moves the usage of workers that are gone as well."""
        await self.add_up()
        await self._fleet.settle(await self._fleet.end_expired(await self._clock.now()))

    async def unsettled(self) -> frozenset[str]:
        """Returns the jobs that stand in ledgers. Only they can tell how their attempts ended, so they must stay."""
        return frozenset(pk for ledger in (await self._ledgers.read_all()).values() for pk, _ in ledger.entries)

    async def mentions(self, tenant: TenantId) -> bool:
        """Returns whether a ledger has usage or jobs of the tenant."""
        return any(
            any(hour.tenant == tenant for hour in ledger.usage)
            or any(read_job_pk(pk)[0] == tenant for pk, _ in ledger.entries)
            for ledger in (await self._ledgers.read_all()).values()
        )

    async def read(self, query: UsageQuery, limit: int, tenant: TenantId | None = None) -> list[UsageRow]:
        """Reads the usage of a tenant, or of all."""
        now = await self._clock.now()
        tenants = [tenant] if tenant is not None else await self._tenants.list()
        for _ in range(TRIES):
            ledgers = await self._ledgers.read_all()
            unmoved, missing = await self._unmoved(ledgers, set(tenants))
            # Whatever a worker moves from now on stands in these hours or in later ones.
            cut = min([now - 2 * HOUR, *(read_timestamp(hour.at) for hour, _ in unmoved)])
            begin = min(max(cut, query.since), query.till)
            late = await hours.read(self._table, tenants, begin, query.till, now)
            if _is_same(ledgers, await self._ledgers.read_all(), missing):
                break
            await asyncio.sleep(random() * LONGEST_PAUSE)
        else:
            raise TransactionConflict("workers moved usage during each read. Nothing was returned.", fix="Try again.")
        early = await hours.read(self._table, tenants, query.since, begin, now)
        kept = [each for each in unmoved if read_timestamp(each[0].at) >= now - hours.HISTORY]
        return tally.rows(tally.add([*early.items(), *late.items(), *kept]), query, limit)

    async def _unmoved(
        self, ledgers: Mapping[WorkerId, Ledger], tenants: set[TenantId]
    ) -> tuple[list[Ended], list[tuple[WorkerId, Entry]]]:
        """Returns the usage that ledgers have or will have, and entries whose jobs are gone."""
        wanted = {
            worker: [entry for entry in ledger.entries if read_job_pk(entry[0])[0] in tenants]
            for worker, ledger in ledgers.items()
        }
        looks = await gather(look(self._table, worker, entries) for worker, entries in wanted.items())
        found = [each for ledger in ledgers.values() for each in ledger.usage.items() if each[0].tenant in tenants]
        found += [ended for seen in looks for ended in seen.ended.values()]
        return found, [(worker, entry) for worker, seen in zip(wanted, looks, strict=True) for entry in seen.missing]


def _is_same(
    before: Mapping[WorkerId, Ledger], after: Mapping[WorkerId, Ledger], missing: Sequence[tuple[WorkerId, Entry]]
) -> bool:
    """Returns whether no ledger has moved usage to the hours since. An entry whose job is gone may have been settled
    since, and its job pruned: then the later ledger has its usage.
    """
    return all(worker in after and after[worker].moves == ledger.moves for worker, ledger in before.items()) and all(
        entry in after[worker].entries for worker, entry in missing
    )

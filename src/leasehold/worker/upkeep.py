"""Work that every worker does for all others: it reclaims the jobs of dead workers and prunes old jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from random import random
from typing import Any

from leasehold.model.job import Claim
from leasehold.model.outcome import LeaseLost, Verdict, decide_safely
from leasehold.store import Store
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.store_calls import StoreCalls, finish_all

RECLAIMED_AT_ONCE = 100
PRUNED_AT_ONCE = 1000


async def _await(asked: Awaitable[Any]) -> Any:
    return await asked


async def reclaim_orphans(
    store: Store, in_time: Callable[[Awaitable[Any]], Awaitable[Any]] = _await
) -> list[tuple[Claim, Verdict]]:
    """Evicts dead workers. Returns their claims, each with its verdict: the job is queued again, or given up."""
    reclaimed: list[tuple[Claim, Verdict]] = []
    while orphans := await in_time(store.evict(RECLAIMED_AT_ONCE)):
        lost = [(claim, decide_safely(LeaseLost(), claim, random())) for claim in orphans]
        written, fenced = await in_time(finish_all(partial(store.finish, reclaimed=True), lost))
        ended = [(claim, verdict) for claim, verdict in written if claim not in fenced]
        if not ended:  # others were first, or none of these rows can be ended: they would be found again for ever
            break
        reclaimed += ended
    return reclaimed


class Upkeep:
    """Three loops: reclaim orphans and reconcile claims when a heartbeat finds some, and prune every hour or so."""

    def __init__(self, calls: StoreCalls, ledger: ClaimLedger, events: EventReporter, prune_every: timedelta) -> None:
        self._calls = calls
        self._ledger = ledger
        self._events = events
        self._prune_every = prune_every.total_seconds()
        self.orphans_found = asyncio.Event()
        self.strays_found = asyncio.Event()

    async def run_reclaims(self) -> None:
        while True:
            await self.orphans_found.wait()
            self.orphans_found.clear()
            await self.reclaim()

    async def reclaim(self) -> None:
        for claim, verdict in await reclaim_orphans(self._calls.store, self._calls.in_time):
            self._events.report_reclaim(claim, verdict, by=self._calls.registration)

    async def run_reconciles(self) -> None:
        """Gives back claims that the store holds for this worker and the ledger does not know: they arrived late."""
        while True:
            await self.strays_found.wait()
            self.strays_found.clear()
            async with self._ledger.claiming:
                await self._calls.in_time(self._ledger.reconcile())

    async def run_prunes(self) -> None:
        while True:
            await asyncio.sleep(self._prune_every * (0.5 + random()))
            while await self.prune() == PRUNED_AT_ONCE:
                continue

    async def prune(self) -> int:
        return await self._calls.in_time(self._calls.store.prune(PRUNED_AT_ONCE))

"""The upkeep of a worker: that for all workers, unless its server does it, and that of its own claims."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from leasehold.store import Renewal
from leasehold.upkeep import Upkeep
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.store_calls import StoreCalls


class WorkerUpkeep(Upkeep):
    """Also reconciles claims, when a heartbeat tells of some that this worker does not know of."""

    def __init__(self, calls: StoreCalls, ledger: ClaimLedger, events: EventReporter, prune_every: timedelta) -> None:
        super().__init__(
            calls.store,
            calls.in_time,
            lambda claim, verdict: events.report_reclaim(claim, verdict, by=calls.registration),
            prune_every,
            events.listeners.tracing,
        )
        self._calls = calls
        self._ledger = ledger
        self.strays_found = asyncio.Event()

    def loops(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        for_all = super().loops() if self._store.abilities.upkeep else {}
        return {"reconciler": self.run_reconciles, **for_all}

    def note(self, renewal: Renewal) -> None:
        super().note(renewal)
        if renewal.strays:
            self.strays_found.set()

    async def run_reconciles(self) -> None:
        """Gives back claims that the store holds for this worker and the ledger does not know: they arrived late."""
        while True:
            await self.strays_found.wait()
            self.strays_found.clear()
            async with self._ledger.claiming:
                await self._calls.in_time(self._ledger.reconcile())

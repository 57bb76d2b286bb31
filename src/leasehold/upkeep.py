"""Work for all workers: jobs of dead ones are reclaimed, old ones pruned, operations run, figures added up.

Every worker does it beside its own jobs. A server of the API does it for workers over HTTP, which may not.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from random import random
from typing import Any, Protocol, TypeVar

from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.store import Renewal, Store
from leasehold.store.operation_batch import run_while_due
from leasehold.store.reclaim import reclaim_orphans
from leasehold.telemetry import Tracing

T = TypeVar("T")

PRUNED_AT_ONCE = 1000
# Seconds over which runners spread their first look at an operation, of which they hear all at once.
OPERATION_SPREAD = 0.2
# Seconds between two looks for minutes that have ended.
ROLL_UP_EVERY = 60.0
# A minute can be added up 5 s after its end. A later roll-up reads the jobs that have ended since as well.
ROLL_UP_AFTER = 6.0


def pause_before_roll_up(now: float, chance: float) -> float:
    """Returns the seconds from `now` until a moment soon after the end of a minute, which differs by chance."""
    return ROLL_UP_EVERY - (now - ROLL_UP_AFTER) % ROLL_UP_EVERY + chance * ROLL_UP_EVERY / 6


class InTime(Protocol):
    """Awaits an answer of the store, for no longer than the caller can wait."""

    def __call__(self, asked: Awaitable[T]) -> Awaitable[T]: ...


class Upkeep:
    """Four loops: reclaim orphans and run operations when a heartbeat tells of some; prune every hour or so; add up
    usage, and figures for charts, every minute.
    """

    def __init__(
        self,
        store: Store,
        in_time: InTime,
        on_reclaim: Callable[[Claim, Verdict], None],
        prune_every: timedelta,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._in_time = in_time
        self._on_reclaim = on_reclaim
        self._tracing = tracing
        self._prune_every = prune_every.total_seconds()
        self.orphans_found = asyncio.Event()
        self.operations_found = asyncio.Event()

    def loops(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        return {
            "reclaimer": self.run_reclaims,
            "pruning": self.run_prunes,
            "operations": self.run_operations,
            "figures": self.run_roll_ups,
        }

    def note(self, renewal: Renewal) -> None:
        """Acts on what a heartbeat tells."""
        if renewal.orphans:
            self.orphans_found.set()
        if renewal.next_operation is not None and renewal.next_operation <= timedelta():
            self.operations_found.set()

    async def run_reclaims(self) -> None:
        while True:
            await self.orphans_found.wait()
            self.orphans_found.clear()
            await self.reclaim()

    async def reclaim(self) -> None:
        for claim, verdict in await reclaim_orphans(self._store, self._in_time, self._tracing):
            self._on_reclaim(claim, verdict)

    async def run_operations(self) -> None:
        """Runs operations batch by batch, for as long as no other runner does."""
        while True:
            await self.operations_found.wait()
            self.operations_found.clear()
            await asyncio.sleep(random() * OPERATION_SPREAD)
            await run_while_due(self._store.operations, asyncio.sleep, self._in_time)

    async def run_prunes(self) -> None:
        while True:
            await asyncio.sleep(self._prune_every * (0.5 + random()))
            while await self.prune() == PRUNED_AT_ONCE:
                continue

    async def prune(self) -> int:
        return await self._in_time(self._store.prune(PRUNED_AT_ONCE))

    async def run_roll_ups(self) -> None:
        while True:
            await asyncio.sleep(self.pause_before_roll_up(random()))
            await self.roll_up()

    def pause_before_roll_up(self, chance: float) -> float:
        """Returns the seconds until the next roll-up. Without figures of minutes, roll-ups are spread evenly: at one
        moment they would write the same items.
        """
        if self._store.abilities.series:
            return pause_before_roll_up(time.time(), chance)
        return ROLL_UP_EVERY * (0.5 + chance)

    async def roll_up(self) -> None:
        while await self._in_time(self._store.roll_up()):
            continue

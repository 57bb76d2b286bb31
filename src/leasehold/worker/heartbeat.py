"""The heartbeat: on a thread, a loop and a connection of its own, so that no handler can stop it."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from random import random
from time import monotonic

from leasehold.errors import InvalidInput, Unreachable
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.store import Renewal, Seat, Store

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
DEATHS_IN_A_ROW = 3
SHORTEST_LEASE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Leases:
    """How long a claim holds without a heartbeat, and how often one is sent: while jobs run, and while idle."""

    busy: timedelta = timedelta(seconds=60)
    idle: timedelta = timedelta(seconds=180)

    def __post_init__(self) -> None:
        if (shortest := min(self.busy, self.idle)) < SHORTEST_LEASE:
            raise InvalidInput(
                f"A lease of {shortest.total_seconds():g} s is shorter than {SHORTEST_LEASE.total_seconds():g} s: "
                "a worker would lose its seat, and its jobs, whenever a heartbeat is a moment late.",
                fix="Nothing was started. Use a longer lease; 60s is the default.",
            )

    @property
    def margin(self) -> float:
        """The worker stops acting this many seconds before the database may give its jobs away."""
        return min(self.busy, self.idle).total_seconds() / 6


class Heartbeat:
    """Renews a seat until it is stopped, or until the seat is lost (`on_lost`), or it can't go on (`on_broken`).

    The lease counts from the moment before the heartbeat was sent, on this machine's monotonic clock: the database's
    own count begins later and so ends later. Callbacks run on the heartbeat's thread.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        seat: Seat,
        leases: Leases,
        held: Callable[[], Sequence[Claim]],
        on_renewal: Callable[[Renewal], None],
        on_lost: Callable[[str], None],
        on_broken: Callable[[Exception], None],
    ) -> None:
        self._open_store = open_store
        self._seat = seat
        self._leases = leases
        self._held = held
        self._on_renewal = on_renewal
        self._on_lost = on_lost
        self._on_broken = on_broken
        self._valid_until = monotonic() + leases.busy.total_seconds() - leases.margin
        self._thread = threading.Thread(target=self._run, name="leasehold-heartbeat", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry: asyncio.Event | None = None
        self._started = threading.Event()
        self._deaths = 0
        self._lease_is_busy = False
        self._stopping = False

    @property
    def holds(self) -> bool:
        """Whether the lease still holds; asked before every step that others can see."""
        return monotonic() < self._valid_until

    def start(self) -> None:
        self._thread.start()
        self._started.wait()

    def hurry(self) -> None:
        """Beat now: the first job after a rest, or a cancel to be heard of."""
        if self._loop is not None and self._hurry is not None:
            with suppress(RuntimeError):  # the loop has ended: so has the need
                self._loop.call_soon_threadsafe(self._hurry.set)

    def hurry_after_a_rest(self) -> None:
        """Beat now if the lease is an idle worker's. Between two jobs it is not: half of all beats were for those."""
        if not self._lease_is_busy:
            self.hurry()

    def stop(self) -> None:
        self._stopping = True
        self.hurry()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        """Begins again when it dies; when it can't go on, the worker is told while its lease still holds."""
        while True:
            try:
                return asyncio.run(self._beat())
            except Exception as error:
                self._deaths += 1
                if self._deaths == DEATHS_IN_A_ROW:
                    self._started.set()  # whoever waits for the start must hear that there is none
                    return self._on_broken(error)
                log.exception("the heartbeat died and is begun again")

    async def _beat(self) -> None:
        self._loop, self._hurry = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        store: Store | None = None
        failures = 0
        try:
            while not self._stopping:
                self._hurry.clear()
                try:
                    async with asyncio.timeout(self._patience()):
                        store = store or await self._open_store()
                        interval = await self._renew(store)
                    failures = 0
                except (Unreachable, TimeoutError) as error:
                    if not self.holds:
                        self._lose(f"the database could not be reached in time ({str(error) or 'no answer'})")
                        return
                    interval = min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE) * (0.5 + random())
                    failures += 1
                if interval is None:
                    return
                await self._pause(interval)
        finally:
            if store is not None:
                with suppress(Unreachable, TimeoutError):
                    await asyncio.wait_for(store.close(), 2)

    def _patience(self) -> float:
        return max(0.0, self._valid_until - monotonic())

    async def _renew(self, store: Store) -> float | None:
        """One beat; returns when the next is due. None: the seat is gone."""
        held = self._held()
        lease = (self._leases.busy if held else self._leases.idle).total_seconds()
        sent = monotonic()
        reach("before_heartbeat")
        renewal = await store.renew(self._seat, held, timedelta(seconds=lease))
        if not renewal.alive:
            self._lose("it was evicted: another worker found its lease run out")
            return None
        self._valid_until = sent + lease - self._leases.margin
        self._lease_is_busy = bool(held)
        if not held and self._held():  # began while this beat was under way, when the lease still seemed busy
            self.hurry()
        self._deaths = 0
        self._on_renewal(renewal)
        return lease / 3

    async def _pause(self, seconds: float) -> None:
        assert self._hurry is not None
        wait = min(seconds, max(0.0, self._valid_until - monotonic()))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), wait)

    def _lose(self, why: str) -> None:
        self._valid_until = float("-inf")
        if not self._stopping:
            self._on_lost(why)

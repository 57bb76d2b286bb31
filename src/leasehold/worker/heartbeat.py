"""Sends heartbeats on a thread, a loop and a connection of their own, so that handlers can't block them."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from leasehold.commands.lease import LeaseFile
from leasehold.errors import InvalidInput, TransactionConflict, Unreachable
from leasehold.faults import reach
from leasehold.model.bounds import problems_of_duration
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import Claim
from leasehold.runtime.supervise import RestartPolicy
from leasehold.store import Registration, Renewal, Store

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
SHORTEST_TRY = 1.0
DEATHS_IN_A_ROW = 3
SHORTEST_LEASE = timedelta(seconds=1)
LEAST_STANDSTILL = 0.5
# A heartbeat is due when a third of its lease is over. One that is answered so many seconds later is late.
LATE = 1.0


@dataclass(frozen=True, slots=True)
class Leases:
    """How long a claim holds without a heartbeat, while jobs run and while idle. A third of it lies between two."""

    busy: timedelta = timedelta(seconds=60)
    idle: timedelta = timedelta(seconds=180)

    def __init__(self, busy: Duration = timedelta(seconds=60), idle: Duration = timedelta(seconds=180)) -> None:
        object.__setattr__(self, "busy", as_duration(busy))
        object.__setattr__(self, "idle", as_duration(idle))
        if problems := [
            problem
            for name in ("busy", "idle")
            for problem in problems_of_duration(name, getattr(self, name), least=timedelta.min)
        ]:
            raise InvalidInput(
                f"Invalid leases: {'; '.join(problems)}.",
                fix="Nothing was started. Correct them; 60s is the default.",
            )
        if (shortest := min(self.busy, self.idle)) < SHORTEST_LEASE:
            raise InvalidInput(
                f"A lease of {shortest.total_seconds():g} s is shorter than {SHORTEST_LEASE.total_seconds():g} s: "
                "a worker would lose its registration, and its jobs, whenever a heartbeat is a moment late.",
                fix="Nothing was started. Use a longer lease; 60s is the default.",
            )

    @property
    def margin(self) -> float:
        """The worker stops acting this many seconds before the database may give its jobs away."""
        return min(self.busy, self.idle).total_seconds() / 6


class LeaseClock:
    """Knows until when the lease holds, on this machine's monotonic clock.

    It counts from the moment before the heartbeat was sent: the database counts from a later moment, so its lease
    ends later.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.is_busy = False
        self.ends = monotonic() + leases.busy.total_seconds() - leases.margin
        self._file: LeaseFile | None = None
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        return max(0.0, self.ends - monotonic())

    def renew(self, sent: float, lease: float, *, busy: bool) -> None:
        """Notes the answer to a heartbeat that was sent at `sent`."""
        self._set(sent + lease - self._leases.margin)
        self.is_busy = busy

    def lose(self) -> None:
        self._set(float("-inf"))

    def descriptor(self) -> int:
        """Returns the descriptor of a file with the end of the lease, for the guards of commands."""
        with self._lock:
            if self._file is None:
                self._file = LeaseFile(self.ends)
            return self._file.descriptor

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def _set(self, ends: float) -> None:
        with self._lock:
            self.ends = ends
            if self._file is not None:
                self._file.write(ends)


@dataclass(frozen=True, slots=True)
class HeartbeatHooks:
    """How a heartbeat and its worker talk. All are called on the heartbeat's thread.

    `held` returns the claims to renew, `asks` the options of a renewal. `on_renewal` gets each answer and the time
    when its heartbeat was sent. `on_lost`: the registration is lost. `on_broken`: the heartbeat keeps failing.
    `on_missed`: the database did not answer a beat, and the lease still holds. `on_late` gets the seconds by which
    an answer came late.
    """

    held: Callable[[], Sequence[Claim]]
    asks: Callable[[], Mapping[str, bool]]
    on_renewal: Callable[[Renewal, float], None]
    on_lost: Callable[[str], None]
    on_broken: Callable[[Exception], None]
    on_missed: Callable[[Exception], None] = lambda _: None
    on_late: Callable[[float], None] = lambda _: None


class Heartbeat:
    """Renews a registration until it is stopped, the registration is lost, or it fails again and again."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        registration: Registration,
        leases: Leases,
        hooks: HeartbeatHooks,
    ) -> None:
        self._open_store = open_store
        self._registration = registration
        self._leases = leases
        self._hooks = hooks
        self._stood_still = 0.0
        self._due_at = float("inf")
        self.lease = LeaseClock(leases)
        self._thread = threading.Thread(target=self._run, name="leasehold-heartbeat", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry: asyncio.Event | None = None
        self._started = threading.Event()
        self._deaths = 0
        self._stopping = False

    @property
    def holds(self) -> bool:
        """Whether the lease still holds; checked before every step that others can see."""
        return monotonic() < self.lease.ends

    def start(self) -> None:
        self._thread.start()
        self._started.wait()

    def hurry(self) -> None:
        """Sends a heartbeat now: for the first job after a rest, or to learn of a cancel."""
        if self._loop is not None and self._hurry is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it the heartbeat
                self._loop.call_soon_threadsafe(self._hurry.set)

    def hurry_after_a_rest(self) -> None:
        """Sends a heartbeat now if the lease is an idle one. Half of all beats came between two jobs."""
        if not self.lease.is_busy:
            self.hurry()

    def stop(self) -> None:
        self._stopping = True
        self.hurry()
        self._thread.join(timeout=5)
        self.lease.close()

    def _run(self) -> None:
        """Restarts the beat when it dies; tells the worker after three deaths in a row, while the lease holds."""
        while True:
            try:
                return asyncio.run(self._beat())
            except Exception as error:
                self._deaths += 1
                if self._deaths == DEATHS_IN_A_ROW:
                    self._started.set()  # `start` must not wait any longer: there is none
                    return self._hooks.on_broken(error)
                log.exception("the heartbeat died and is begun again")

    async def _beat(self) -> None:
        self._loop, self._hurry = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        store: Store | None = None
        policy = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)
        try:
            while not self._stopping:
                self._hurry.clear()
                patience, began = self._patience(), monotonic()
                try:
                    async with asyncio.timeout(patience):
                        store = store or await self._open_store()
                        interval = await self._renew(store)
                    self._note_standstill(monotonic() - began - patience)
                    policy.reset()
                except (Unreachable, TransactionConflict, TimeoutError) as error:
                    self._note_standstill(monotonic() - began - patience)
                    if not self.holds:
                        self._lose(f"the database could not be reached in time ({str(error) or 'no answer'})")
                        return
                    if not isinstance(error, TransactionConflict):
                        self._hooks.on_missed(error)
                    interval = policy.next_random_pause()
                if interval is None:
                    return
                await self._pause(interval)
        finally:
            if store is not None:
                with suppress(Unreachable, TimeoutError):
                    await asyncio.wait_for(store.close(), 2)

    def _patience(self) -> float:
        """Returns how long one try may take: a third of the time left, so that a fresh connection can be tried."""
        left = self.lease.left
        return min(left, max(left / 3, SHORTEST_TRY))

    async def _renew(self, store: Store) -> float | None:
        """Sends one beat. Returns the seconds until the next, or None if the registration is gone."""
        held = self._hooks.held()
        lease = (self._leases.busy if held else self._leases.idle).total_seconds()
        sent = monotonic()
        reach("before_heartbeat")
        renewal = await store.renew(self._registration, held, timedelta(seconds=lease), **self._hooks.asks())
        if not renewal.alive:
            self._lose("it was evicted: another worker found its lease run out")
            return None
        self.lease.renew(sent, lease, busy=bool(held))
        self._stood_still = 0.0
        if not held and self._hooks.held():  # a job began during this beat, when the lease still seemed busy
            self.hurry()
        self._deaths = 0
        if (late_by := monotonic() - self._due_at) > LATE:
            self._hooks.on_late(late_by)
        self._due_at = sent + lease / 3
        self._hooks.on_renewal(renewal, sent)
        return lease / 3

    async def _pause(self, seconds: float) -> None:
        assert self._hurry is not None
        began = monotonic()
        wait = min(seconds, self.lease.left)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), wait)
        self._note_standstill(monotonic() - began - wait)

    def _note_standstill(self, late: float) -> None:
        """Adds up how much longer waits took than they could have in a process that runs."""
        if late > LEAST_STANDSTILL:
            self._stood_still += late

    def _lose(self, why: str) -> None:
        self.lease.lose()
        if self._stood_still:
            why = (
                f"this process did not run for {self._stood_still:.1f} s: it was stopped, its machine slept, or "
                "something held up all of its threads"
            )
        if not self._stopping:
            self._hooks.on_lost(why)

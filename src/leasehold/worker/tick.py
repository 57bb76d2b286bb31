"""One tick: due work in the caller's own process, for as long as that may run."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

from leasehold.errors import InvalidInput, LeaseholdError, RegistrationLost
from leasehold.model.bounds import problems_of_integer
from leasehold.model.status import AttemptStatus
from leasehold.runtime.supervise import cancel_all
from leasehold.store import Store, Subscription, WorkerFacts
from leasehold.telemetry import Event, JobEnded, JobGivenBack, JobReclaimed
from leasehold.worker.events import EventReporter
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Leases
from leasehold.worker.outage import Outage
from leasehold.worker.session import FIRST_HESITATION, LONGEST_HESITATION, PRUNED_AT_ONCE, WorkerSession
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads
from leasehold.worker.worker import MOST_ABANDONED, WorkerSettings

# Whoever is killed at the end of its time can't give anything back: its jobs wait this long for another.
LEASE = Leases(busy=timedelta(seconds=15), idle=timedelta(seconds=15))
EMPTY_CLAIMS = 10


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick did. `ran` counts attempts that ended; some of them neither succeeded nor failed, as a snooze.

    `given_back` were begun, and the time was over: they wait for the next, at no cost. `reclaimed` were held by
    workers that are gone. `more`: there may be more that is due, tick again.
    """

    ran: int = 0
    succeeded: int = 0
    failed: int = 0
    given_back: int = 0
    reclaimed: int = 0
    more: bool = False


async def tick(
    store: Store,
    open_store: Callable[[], Awaitable[Store]],
    handlers: Handlers,
    settings: WorkerSettings,
    max_jobs: int,
    max_seconds: float,
) -> Ticked:
    """Reclaims, then claims and runs up to `max_jobs`, for at most `max_seconds`; then leaves."""
    problems = list(problems_of_integer("max_jobs", max_jobs, 1))
    if max_seconds <= 0:
        problems.append(f"max_seconds={max_seconds} is not more than zero")
    if problems:
        raise InvalidInput(
            f"The tick can't be run: {'; '.join(problems)}. Nothing was run.",
            fix="Give it at least one job and some time.",
        )
    until = monotonic() + max_seconds
    count = _Count()
    settings = replace(settings, leases=LEASE, notify=False, slots=min(settings.slots, max_jobs))
    await store.sync_definitions(handlers.definitions)
    facts = WorkerFacts(socket.gethostname(), os.getpid(), settings.version, settings.slots, {"tick": "yes"})
    registration = await store.join(Subscription(handlers.keys, settings.tenants), facts, LEASE.busy)
    threads = Threads(settings.slots + MOST_ABANDONED, "leasehold-handler")
    turn = _Turn(
        store, registration, handlers, threads, settings, open_store, EventReporter(count), StuckHandlers(), Outage()
    )
    try:
        more = await turn.take(max_jobs, until)
    finally:
        threads.shutdown(cancel_futures=True)
    return replace(count.ticked, more=more)


class _Count:
    """By what is told of once it is written: so it counts nothing that was fenced off."""

    def __init__(self) -> None:
        self.ticked = Ticked()

    def __call__(self, event: Event) -> None:
        now = self.ticked
        if isinstance(event, JobEnded):
            succeeded = event.attempt_status is AttemptStatus.SUCCEEDED
            failed = event.attempt_status in (AttemptStatus.FAILED, AttemptStatus.TIMEOUT)
            now = replace(now, ran=now.ran + 1, succeeded=now.succeeded + succeeded, failed=now.failed + failed)
        elif isinstance(event, JobGivenBack):
            now = replace(now, given_back=now.given_back + 1)
        elif isinstance(event, JobReclaimed):
            now = replace(now, reclaimed=now.reclaimed + 1)
        self.ticked = now


class _Turn(WorkerSession):
    """A session that neither sleeps nor listens: it takes what is due, and is over."""

    async def take(self, max_jobs: int, until: float) -> bool:
        """Whether there may be more."""
        keep = self._keep
        others = [
            keep("finisher", self._finish_on),
            keep("voice", lambda: self._log_buffer.write_on(self._store, self._in_time)),
        ]
        at_once = asyncio.Event()
        at_once.set()
        self._beats = False
        try:
            with suppress(RegistrationLost):
                await self._bury()
                more = await self._work(max_jobs, until)
                await self._drain(at_once)
                return more
            return True
        finally:
            self._stop_runs()
            await cancel_all([*others])
            self._forget_all()
            if self._beats:
                await self._end_heartbeat()
            with suppress(LeaseholdError):  # the tick is over, whatever the heartbeat had to say
                if self._over.done():
                    self._over.result()

    async def _work(self, max_jobs: int, until: float) -> bool:
        """Whether there may be more: unless a last look finds nothing, when nothing runs that could bring it."""
        left, empty, more = max_jobs, 0, True
        while left and not self._is_over(until):
            room = min(left, self._settings.slots - len(self._runs))
            if not room:
                await self._any_ends(until)
                continue
            claimed = await self._claim(self._store.claim, room)
            self._start_all()
            left -= len(claimed.claims)
            if claimed.claims:
                empty = 0
                self._begin_to_beat()
            elif self._runs or self._freed.is_set():  # what runs, or ended just now, brings follow-ups and room
                await self._any_ends(until)
            elif claimed.more and empty < EMPTY_CLAIMS:
                await asyncio.sleep(min(FIRST_HESITATION * 2**empty, LONGEST_HESITATION))
                empty += 1
            else:
                more = claimed.more
                break
        while self._runs and not self._is_over(until):
            await self._any_ends(until)
        if not self._is_over(until):
            await self._in_time(self._store.prune(PRUNED_AT_ONCE))
        return more

    def _is_over(self, until: float) -> bool:
        return self._over.done() or monotonic() >= until

    def _begin_to_beat(self) -> None:
        """Only with something to hold: an empty tick costs no further connection."""
        if not self._beats:
            self._beats = True
            self._heartbeat.start()

    async def _any_ends(self, until: float) -> None:
        """Since the last time: whatever ended during a claim has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - monotonic())):
                await self._freed.wait()
        self._freed.clear()

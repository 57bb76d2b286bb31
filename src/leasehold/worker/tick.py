"""Runs one tick: due work in the caller's own process, for a limited time."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any

from leasehold.errors import InvalidInput, LeaseholdError, RegistrationLost
from leasehold.model.bounds import problems_of_integer
from leasehold.model.status import AttemptStatus
from leasehold.runtime.attempt_logs import carry_attempts
from leasehold.runtime.outage import Outage
from leasehold.runtime.redacted_logs import redact_own_logs
from leasehold.runtime.supervise import cancel_all
from leasehold.store import Store, Subscription, WorkerFacts
from leasehold.store.operation_batch import run_while_due
from leasehold.telemetry import Event, JobEnded, JobGivenBack, JobReclaimed, Listeners
from leasehold.worker.claim_loop import FIRST_HESITATION, LONGEST_HESITATION
from leasehold.worker.events import EventReporter, log_problems
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Leases
from leasehold.worker.lifespan import Lifespan, OpenState
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.schedules import FireSchedules, fire_nothing
from leasehold.worker.session import WorkerSession
from leasehold.worker.settings import WorkerSettings
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads
from leasehold.worker.worker import MOST_ABANDONED

# A process that is killed at the end of its time can't give its jobs back: they wait this long for another worker.
LEASE = Leases(busy=timedelta(seconds=15), idle=timedelta(seconds=15))
EMPTY_CLAIMS = 10


@dataclass(frozen=True, slots=True)
class Ticked:
    """The work of one tick. `ran` counts attempts that ended; a snooze neither succeeded nor failed.

    `given_back` counts jobs that still ran when the time was over: they run again, and no try was used. `reclaimed`
    counts jobs that dead workers held, `fired` those that schedules made. `more`: there may be more due jobs or
    schedules, tick again.
    """

    ran: int = 0
    succeeded: int = 0
    failed: int = 0
    given_back: int = 0
    reclaimed: int = 0
    fired: int = 0
    more: bool = False


async def tick(
    store: Store,
    open_store: Callable[[], Awaitable[Store]],
    handlers: Handlers,
    settings: WorkerSettings,
    max_jobs: int,
    max_seconds: float,
    fire: FireSchedules = fire_nothing,
    open_state: OpenState | None = None,
    processes: HandlerProcesses | None = None,
    listeners: Listeners | None = None,
) -> Ticked:
    """Fires schedules, reclaims, then claims and runs up to `max_jobs`, for at most `max_seconds`; then leaves.

    The lifespan of the app is open meanwhile: each tick opens it.
    """
    problems = list(problems_of_integer("max_jobs", max_jobs, 1))
    if max_seconds <= 0:
        problems.append(f"max_seconds={max_seconds} is not more than zero")
    if problems:
        raise InvalidInput(
            f"The tick can't be run: {'; '.join(problems)}. Nothing was run.",
            fix="Give it at least one job and some time.",
        )
    redact_own_logs()
    handlers.require_secret_keys()
    until = monotonic() + max_seconds
    count = _Count()
    events = EventReporter(Listeners([count, *(listeners or ())]))
    settings = replace(settings, leases=LEASE, notify=False, slots=min(settings.slots, max_jobs))
    declared = handlers.keys
    handlers, lacking = handlers.of_this_machine()
    log_problems(lacking)
    serves = settings.subscription(declared, handlers.keys)
    await store.sync_definitions(handlers.definitions)
    await handlers.sync_triggers(store)
    # Before it joins: a schedule for many tenants may take longer than a lease, which nothing renews yet.
    fire = fire if store.abilities.schedules else fire_nothing
    schedules = await fire(store, lambda: monotonic() >= until)
    await run_while_due(store.operations, asyncio.sleep, is_over=lambda: monotonic() >= until, longest_wait=0)
    lifespan = Lifespan(open_state)
    try:
        await lifespan.open()
        carry_attempts()
        more = await _run_jobs(
            *(store, open_store, handlers, settings, serves, max_jobs, until, events, lifespan.state, processes)
        )
    finally:
        if processes is not None:
            await processes.close()
        await lifespan.close()
    return replace(count.ticked, more=more or schedules.more, fired=schedules.fired)


async def _run_jobs(
    store: Store,
    open_store: Callable[[], Awaitable[Store]],
    handlers: Handlers,
    settings: WorkerSettings,
    serves: Subscription,
    max_jobs: int,
    until: float,
    events: EventReporter,
    state: Any,
    processes: HandlerProcesses | None,
) -> bool:
    """Joins, works and leaves. Returns whether there may be more."""
    facts = WorkerFacts(socket.gethostname(), os.getpid(), settings.version, settings.slots, {"tick": "yes"})
    registration = await store.join(serves, facts, LEASE.busy)
    threads = Threads(settings.slots + MOST_ABANDONED, "leasehold-handler")
    session = WorkerSession(
        *(store, registration, handlers, threads, settings, open_store),
        *(events, StuckHandlers(), Outage(events.listeners)),
        state=state,
        processes=processes,
    )
    try:
        return await _Tick(session, settings.slots, until).run(max_jobs)
    finally:
        threads.shutdown(cancel_futures=True)


class _Count:
    """Counts by events, which come once an end is written: counts nothing that was fenced off."""

    wants = (JobEnded, JobGivenBack, JobReclaimed)

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


class _Tick:
    """Claims due jobs, runs them, and ends: a session that neither sleeps nor listens."""

    def __init__(self, session: WorkerSession, slots: int, until: float) -> None:
        self._session = session
        self._ledger = session.ledger
        self._slots = slots
        self._until = until
        self._beats = False

    async def run(self, max_jobs: int) -> bool:
        """Returns whether there may be more."""
        session = self._session
        writers = session.start_writers()
        at_once = asyncio.Event()
        at_once.set()
        try:
            with suppress(RegistrationLost):
                await session.upkeep.reclaim()
                more = await self._work(max_jobs)
                await session.drain(at_once)
                return more
            return True
        finally:
            self._ledger.lose_all()
            await cancel_all(writers)
            session.finisher.discard(list(self._ledger.attempts.values()))
            if self._beats:
                await session.stop_heartbeat()
            with suppress(LeaseholdError):  # the tick is over, whatever the heartbeat reported
                session.raise_error()

    async def _work(self, max_jobs: int) -> bool:
        """Returns whether there may be more: not if a last look finds nothing while nothing runs."""
        left, empty, more = max_jobs, 0, True
        while left and not self._is_over():
            room = min(left, self._slots - len(self._ledger.attempts))
            if not room:
                await self._wait_for_an_end()
                continue
            claimed = await self._ledger.claim(self._session.calls.store.claim, room)
            self._session.starter.start_all()
            left -= len(claimed.claims)
            if claimed.claims:
                empty = 0
                self._start_heartbeat()
            elif self._ledger.attempts or self._ledger.freed.is_set():  # what runs or just ended may bring more work
                await self._wait_for_an_end()
            elif claimed.more and empty < EMPTY_CLAIMS:
                await asyncio.sleep(min(FIRST_HESITATION * 2**empty, LONGEST_HESITATION))
                empty += 1
            else:
                more = claimed.more
                break
        while self._ledger.attempts and not self._is_over():
            await self._wait_for_an_end()
        if not self._is_over():
            await self._session.upkeep.prune()
        if not self._is_over():
            await self._session.upkeep.roll_up()
        return more

    def _is_over(self) -> bool:
        return self._session.is_over or monotonic() >= self._until

    def _start_heartbeat(self) -> None:
        """Starts the heartbeat with the first claim: an empty tick costs no further connection."""
        if not self._beats:
            self._beats = True
            self._session.heartbeat.start()

    async def _wait_for_an_end(self) -> None:
        """Waits until an attempt has ended since the last wait, also during a claim, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._until - monotonic())):
                await self._ledger.freed.wait()
        self._ledger.freed.clear()

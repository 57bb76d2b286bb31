"""A scheduler as a service of its own, without jobs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from leasehold.errors import CannotListen, LeaseholdError, Unreachable
from leasehold.runtime.outage import Outage
from leasehold.runtime.supervise import RestartPolicy, cancel_all, keep_running, wait_at_most
from leasehold.scheduler.fire_loop import FireLoop
from leasehold.store import Store
from leasehold.store.operation_batch import run_while_due
from leasehold.telemetry import Listeners, Observer, SchedulesFired, ignore_events
from leasehold.telemetry.metrics import ProcessState

log = logging.getLogger("leasehold.scheduler")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
FALLBACK, FALLBACK_WITHOUT_NEWS = timedelta(seconds=60), timedelta(seconds=2)
LISTEN_AGAIN = 60.0
# A worker hears of an operation at once. A scheduler looks now and then, in case no worker runs.
OPERATIONS_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of a scheduler. Without a `fallback` it looks every 60 s, or every 2 s while it can't listen."""

    notify: bool = True
    fallback: timedelta | None = None


class Scheduler:
    """Fires schedules until it is stopped. It waits for a database that is away."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        settings: SchedulerSettings | None = None,
        observe: Observer = ignore_events,
    ) -> None:
        """Calls `observe` with an event whenever schedules have made jobs, and for each decision of a trigger."""
        self._open_store = open_store
        self.listeners = observe if isinstance(observe, Listeners) else Listeners([observe])
        self._outage = Outage(self.listeners, "scheduler")
        self._settings = settings or SchedulerSettings()
        self._store: Store | None = None
        self._stopping = asyncio.Event()
        self._listens = self._settings.notify
        self.joined = asyncio.Event()

    @property
    def grace(self) -> timedelta:
        return timedelta()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def current_store(self) -> Store | None:
        """The store, once the database was reached, on the loop of `run`."""
        return self._store

    def process_state(self) -> ProcessState:
        """Returns the state for metrics and probes."""
        problems = ["the scheduler is stopping"] if self._stopping.is_set() else []
        if (seconds := self._outage.seconds) is not None:
            problems.append(f"the database has been away for {seconds:.0f} s")
        elif self._store is None:
            problems.append("the scheduler has not reached the database yet")
        return ProcessState(tuple(problems))

    def announce_stop(self, grace: timedelta) -> None:
        """Says nothing: a scheduler ends at once, after the transaction that is under way."""

    async def run(self) -> None:
        store = await self._open()
        if store is None:
            return
        self._store = store
        loop = FireLoop(store, self._tell, self.listeners, self._outage.end)
        loop.look()
        work: list[tuple[str, Callable[[], Any]]] = [
            ("scheduler", loop.run),
            ("fallback of the scheduler", lambda: self._look_now_and_then(loop)),
            ("operations", lambda: self._run_operations(store)),
        ]
        if self._listens:
            work.append(("listener of the scheduler", lambda: self._listen(store, loop)))
        waits = self._outage.loop_waits
        tasks = [keep_running(name, each, lost=_never, waits=waits) for name, each in work]
        self.joined.set()
        try:
            await self._stopping.wait()
        finally:
            await cancel_all(tasks)
            try:
                await asyncio.wait_for(store.close(), 5)
            except (LeaseholdError, TimeoutError) as error:
                log.debug("closing the store: %s", error)

    def _tell(self, jobs: int) -> None:
        log.info("schedules have made %d jobs", jobs)
        if self.listeners.wants(SchedulesFired):
            self.listeners.tell(SchedulesFired(at=datetime.now(UTC), jobs=jobs))

    async def _open(self) -> Store | None:
        """Returns the store as soon as the database can be reached; None if the scheduler is stopped before."""
        policy = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopping.is_set():
            try:
                began = monotonic()
                store = await self._open_store()
                self._outage.end(began)
                return store
            except Unreachable as error:
                self._outage.begin(error)
                await wait_at_most(self._stopping, policy.next_random_pause())
        return None

    async def _listen(self, store: Store, loop: FireLoop) -> None:
        """Passes announcements to the loop. If the database refuses, it polls, and tries again once a minute."""
        while True:
            try:
                async with aclosing(store.schedules.fire_times()) as announcements:
                    async for announced in announcements:
                        self._listens = True
                        self._outage.end(monotonic())
                        loop.hear(announced)
            except CannotListen as error:
                log.log(logging.WARNING if self._listens else logging.DEBUG, "%s", error)
                self._listens = False
                await asyncio.sleep(LISTEN_AGAIN)

    async def _look_now_and_then(self, loop: FireLoop) -> None:
        while True:
            fallback = self._settings.fallback or (FALLBACK if self._listens else FALLBACK_WITHOUT_NEWS)
            await asyncio.sleep(fallback.total_seconds())
            loop.check()

    async def _run_operations(self, store: Store) -> None:
        while True:
            asked = monotonic()
            await run_while_due(store.operations, asyncio.sleep)
            self._outage.end(asked)
            await asyncio.sleep(OPERATIONS_EVERY)


def _never(_lost: Exception) -> None:
    """A scheduler has no registration that could be lost."""

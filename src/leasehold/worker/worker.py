"""The worker: joins, works until told to stop, drains, leaves; joins again whenever it lost its registration."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput, LeaseholdError, RegistrationLost, Unreachable
from leasehold.model.bounds import problems_of_duration, problems_of_integer, problems_of_text
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import TenantId
from leasehold.runtime.supervise import RestartPolicy
from leasehold.store import Store, Subscription, WorkerFacts
from leasehold.telemetry import Observer, nobody
from leasehold.worker.events import EventReporter, events_log
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Leases
from leasehold.worker.outage import Outage
from leasehold.worker.session import WorkerSession
from leasehold.worker.stuck import StuckHandlers, TooManyStuck
from leasehold.worker.threads import Threads

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Handlers in threads that nobody waits for any more, after a timeout or a lost lease, keep their thread to the end.
MOST_ABANDONED = 1000
# A worker with more stuck handlers than this and its slots ends. Each slot then still has a thread for its handler.
MOST_STUCK = 100
SHORTEST_FALLBACK = timedelta(seconds=0.1)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`fallback` None: 60 s while wakes arrive, 2 s where they don't. `dispatchers` are claim loops side by side."""

    slots: int = 10
    dispatchers: int = 1
    leases: Leases = field(default_factory=Leases)
    notify: bool = True
    fallback: timedelta | None = None
    grace: timedelta = timedelta(seconds=30)
    prune_every: timedelta = timedelta(hours=1)
    tenants: tuple[TenantId, ...] | None = None
    version: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    if TYPE_CHECKING:  # the constructor also takes the durations as text and as seconds

        def __init__(
            self,
            slots: int = ...,
            dispatchers: int = ...,
            leases: Leases = ...,
            notify: bool = ...,
            fallback: Duration | None = ...,
            grace: Duration = ...,
            prune_every: Duration = ...,
            tenants: tuple[TenantId, ...] | None = ...,
            version: str = ...,
            metadata: dict[str, str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("fallback", "grace", "prune_every"):
            object.__setattr__(self, name, as_duration(getattr(self, name)))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"A worker can't work so: {'; '.join(problems)}.", fix="Nothing was started. Correct the settings."
            )

    def _problems(self) -> Iterator[str]:
        yield from problems_of_integer("slots", self.slots, 1)
        yield from problems_of_integer("dispatchers", self.dispatchers, 1)
        yield from problems_of_duration("grace", self.grace)
        yield from problems_of_duration("prune_every", self.prune_every)
        yield from problems_of_text("version", self.version)
        for name, value in self.metadata.items():
            yield from problems_of_text("metadata", name)
            yield from problems_of_text("metadata", value)
        if self.fallback is None:
            return
        if problems := list(problems_of_duration("fallback", self.fallback)):
            yield from problems
        elif self.fallback < SHORTEST_FALLBACK:
            shortest = SHORTEST_FALLBACK.total_seconds()
            yield f"fallback={self.fallback} is shorter than {shortest:g} s, it would ask the database all the time"


class Worker:
    """Runs the jobs of the definitions that it has handlers for.

        worker = Worker(engine_for(url).open, handlers)
        await worker.run()      # until worker.stop()

    `stop` lets running jobs end within the grace, gives the rest back without costing an attempt, and `run` returns.
    A second `stop` ends the grace at once. What breaks meanwhile is mended: a lost database is waited for; a lost
    registration is replaced, and the jobs that ran under it are stopped, since somebody else may have them now.
    A handler that can't be stopped is left behind, with a warning in the log; if more than slots + 100 are, the
    worker drains and `run` raises TooManyStuck.
    `observe` is told what happens (leasehold.telemetry), on the loop that `run` runs on.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        handlers: Handlers,
        settings: WorkerSettings | None = None,
        observe: Observer = nobody,
    ) -> None:
        self._open_store = open_store
        self._handlers = handlers
        self._settings = settings or WorkerSettings()
        self._events = EventReporter(observe)
        self._outage = Outage()
        self._threads = Threads(self._settings.slots + MOST_ABANDONED, "leasehold-handler")
        self._stuck = StuckHandlers(min(MOST_ABANDONED, self._settings.slots + MOST_STUCK), self._give_up)
        self._failure: TooManyStuck | None = None
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self._session: WorkerSession | None = None
        self.joined = asyncio.Event()

    def stop(self) -> None:
        if self._stopping.is_set():
            self._at_once.set()
        self._stopping.set()

    def announce_stop(self, grace: timedelta) -> None:
        """Logs for people how long running jobs may go on."""
        if not grace:
            events_log.info("running jobs are given back now")
        elif self.running:
            events_log.info(
                "stopping: running jobs have %g s to end, a second Ctrl-C gives them back at once",
                grace.total_seconds(),
            )

    def wake(self) -> None:
        """Looks for work now, as after a wake. Not needed for correctness."""
        if self._session is not None:
            self._session.wake()

    @property
    def grace(self) -> timedelta:
        return self._settings.grace

    @property
    def running(self) -> int:
        """How many jobs it has claimed and not finished."""
        return 0 if self._session is None else self._session.held

    async def run(self) -> None:
        policy = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)
        try:
            while not self._stopping.is_set():
                try:
                    await self._serve_one_session()
                    policy.reset()
                except Unreachable as error:
                    self._outage.begin(error)
                    await self._pause(policy.next_random_pause())
                except RegistrationLost as error:
                    log.warning("%s Joining again.", error.happened)
                    policy.reset()
        finally:
            self._threads.shutdown(cancel_futures=True)
            if self._stuck:
                log.warning("the worker has ended, but these handlers still run in its process: %s", self._stuck)
        if self._failure is not None:
            raise self._failure

    def _give_up(self) -> None:
        """Drains and ends, so that a supervisor starts the process again."""
        self._failure = TooManyStuck(
            f"{len(self._stuck)} handlers still run although their attempts are over: {self._stuck}. The worker "
            "claims nothing more, drains, and ends, since only the end of its process frees their threads and tasks. "
            "Give what these handlers wait for a time limit of its own."
        )
        log.error("%s", self._failure)
        self._stopping.set()

    async def _serve_one_session(self) -> None:
        began = monotonic()
        store = await self._open_store()
        try:
            changes = await store.sync_definitions(self._handlers.definitions)
            serves = Subscription(self._handlers.keys, self._settings.tenants)
            registration = await store.join(serves, self._facts(), self._settings.leases.busy)
            self._outage.end(began)
            self._events.synced(registration, changes)
            session = WorkerSession(
                store,
                registration,
                self._handlers,
                self._threads,
                self._settings,
                self._open_store,
                self._events,
                self._stuck,
                self._outage,
            )
            self._session = session
            self.joined.set()
            await session.serve(self._stopping, self._at_once)
        finally:
            self._session = None
            try:
                await asyncio.wait_for(store.close(), 5)
            except (LeaseholdError, TimeoutError) as error:
                log.debug("closing the store: %s", error)

    def _facts(self) -> WorkerFacts:
        settings = self._settings
        return WorkerFacts(socket.gethostname(), os.getpid(), settings.version, settings.slots, settings.metadata)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

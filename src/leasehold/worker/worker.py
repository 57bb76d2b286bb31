"""The worker: joins, works until told to stop, drains, leaves; joins again whenever it lost its seat."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from random import random

from leasehold.errors import InvalidInput, LeaseholdError, SeatLost, Unreachable
from leasehold.model.job import TenantId
from leasehold.store import Serves, Store, WorkerFacts
from leasehold.telemetry import Observer, nobody
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Leases
from leasehold.worker.report import Report
from leasehold.worker.tenure import Tenure
from leasehold.worker.threads import Threads

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Handlers in threads that nobody waits for any more, after a timeout or a lost lease, keep their thread to the end.
MOST_ABANDONED = 1000
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

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"A worker can't work so: {'; '.join(problems)}.", fix="Nothing was started. Correct the settings."
            )

    def _problems(self) -> Iterator[str]:
        for name, number in (("slots", self.slots), ("dispatchers", self.dispatchers)):
            if number < 1:
                yield f"{name}={number} is not at least 1"
        if self.fallback is not None and self.fallback < SHORTEST_FALLBACK:
            shortest = SHORTEST_FALLBACK.total_seconds()
            yield f"fallback={self.fallback} is shorter than {shortest:g} s, it would ask the database all the time"


class Worker:
    """Runs the jobs of the definitions that it has handlers for.

        worker = Worker(lambda: open_store(url), handlers)
        await worker.run()      # until worker.stop()

    `stop` lets running jobs end within the grace, gives the rest back without costing an attempt, and `run` returns.
    A second `stop` ends the grace at once. What breaks meanwhile is mended: a lost database is waited for; a lost
    seat is replaced, and the jobs that ran under it are stopped, since somebody else may have them now.
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
        self._report = Report(observe)
        self._threads = Threads(self._settings.slots + MOST_ABANDONED, "leasehold-handler")
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self._tenure: Tenure | None = None
        self.joined = asyncio.Event()

    def stop(self) -> None:
        if self._stopping.is_set():
            self._at_once.set()
        self._stopping.set()

    def wake(self) -> None:
        """Looks for work now, as after a wake. Not needed for correctness."""
        if self._tenure is not None:
            self._tenure.wake()

    @property
    def running(self) -> int:
        """How many jobs it has claimed and not finished."""
        return 0 if self._tenure is None else self._tenure.held

    async def run(self) -> None:
        pause, away = FIRST_PAUSE, False
        try:
            while not self._stopping.is_set():
                try:
                    await self._serve_one_tenure()
                    pause, away = FIRST_PAUSE, False
                except Unreachable as error:
                    if not away:
                        log.warning("the database is away, the worker waits for it: %s", error)
                    away = True
                    await self._pause(pause * (0.5 + random()))
                    pause = min(2 * pause, LONGEST_PAUSE)
                except SeatLost as error:
                    log.warning("%s Joining again.", error.happened)
                    pause, away = FIRST_PAUSE, False
        finally:
            self._threads.shutdown(cancel_futures=True)

    async def _serve_one_tenure(self) -> None:
        store = await self._open_store()
        try:
            changes = await store.sync_definitions(self._handlers.definitions)
            serves = Serves(self._handlers.keys, self._settings.tenants)
            seat = await store.join(serves, self._facts(), self._settings.leases.busy)
            self._report.synced(seat, changes)
            tenure = Tenure(
                store, seat, self._handlers, self._threads, self._settings, self._open_store, self._report
            )
            self._tenure = tenure
            self.joined.set()
            await tenure.serve(self._stopping, self._at_once)
        finally:
            self._tenure = None
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

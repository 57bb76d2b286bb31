"""Runs due jobs by a real worker that stops when none is left."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, cast

from leasehold.app import Leasehold
from leasehold.engines import engine_for
from leasehold.runtime.supervise import wait_for_first
from leasehold.scheduler import fire_due_schedules
from leasehold.store import Claimed, Registration, Store
from leasehold.store.reclaim import reclaim_orphans
from leasehold.telemetry import Event, JobDiscarded, JobEnded, JobGivenBack, JobStarted, Observer, ignore_events
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases

LEASE = timedelta(seconds=60)


class Drain:
    """Rounds of work; between two of them no worker has a lease, so that the clock can be moved."""

    def __init__(
        self, app: Leasehold, url: str, *, slots: int = 1, max_jobs: int = 10_000, observe: Observer = ignore_events
    ) -> None:
        self._app = app
        self._engine = engine_for(url, app.settings.schema)
        self._settings = WorkerSettings(slots=slots, leases=Leases(LEASE, LEASE))
        self._max_jobs = max_jobs
        self._observe = observe
        self._runs = 0

    async def until_nothing_is_due(self) -> int:
        async with self._app.open():
            await self._round()
        return self._runs

    async def until_nothing_is_left(self) -> int:
        """Moves the clock to the next due time, again and again."""
        clock = self._engine.test_kit().clock()
        async with self._app.open():
            while (next_due := await self._round()) is not None:
                await clock.move(max(next_due, timedelta()))
        return self._runs

    async def _round(self) -> timedelta | None:
        """Returns the time until this app can run a job; None if there is none."""
        await reclaim_orphans(self._app.store)  # as a worker would a heartbeat later
        await fire_due_schedules(self._app.store)
        quiet: asyncio.Future[timedelta | None] = asyncio.get_running_loop().create_future()
        worker = self._worker(quiet)
        working = asyncio.create_task(worker.run(), name="leasehold drain")
        await wait_for_first(asyncio.shield(working), asyncio.shield(quiet))
        worker.stop()
        await working
        if self._runs > self._max_jobs:
            raise AssertionError(
                f"the drain was stopped after {self._max_jobs} runs: does a job enqueue itself, or snooze for "
                "ever? If there are so many, say drain(max_jobs=…)."
            )
        return quiet.result()

    def _worker(self, quiet: "asyncio.Future[timedelta | None]") -> Worker:
        loop = asyncio.get_running_loop()

        def observe(event: Event) -> None:
            self._observe(event)
            if isinstance(event, JobStarted):
                self._runs += 1
            if isinstance(event, JobEnded | JobGivenBack | JobDiscarded):
                loop.call_soon(worker.wake)  # to look once more: it may have gone to sleep while this one ran

        def note_look(claimed: Claimed, was_running: int) -> None:
            """Ignores a look that began while jobs ran, or held others back: it is out of date."""
            nothing_left = not (claimed.claims or claimed.more or was_running or worker.running)
            if not quiet.done() and (nothing_left or self._runs > self._max_jobs):
                quiet.set_result(claimed.next_due)

        async def open_watched() -> Store:
            store = await self._engine.open()
            return cast(Store, _Watched(store, lambda: worker.running, note_look))

        worker = Worker(open_watched, self._app.handlers, self._settings, observe, open_state=self._app.open_state())
        return worker


class _Watched:
    """A store that reports the result of each look for work."""

    def __init__(self, store: Store, running: Callable[[], int], looked: Callable[[Claimed, int], None]) -> None:
        self._store = store
        self._running = running
        self._looked = looked
        self.claim = partial(self._look, store.claim)
        self.prepare_to_sleep = partial(self._look, store.prepare_to_sleep)

    async def _look(
        self, ask: Callable[[Registration, int], Awaitable[Claimed]], registration: Registration, limit: int
    ) -> Claimed:
        running = self._running()
        claimed = await ask(registration, limit)
        self._looked(claimed, running)
        return claimed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

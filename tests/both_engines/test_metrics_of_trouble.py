"""Trouble that really happens, on each engine, beside the metrics of it: leases, heartbeats, stale finishes, lag."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

import pytest
from tests.both_engines.watched_stores import SilentStores
from tests.conftest import PATIENCE, eventually
from tests.scheduler.timetable import HOUR, SECOND, Timetable
from tests.telemetry.samples import Samples, samples_of
from tests.worker.shop import AT_ONCE, Payload, Workplace, only, session_of

from leasehold import engine
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.scheduler import FireLoop
from leasehold.store import Renewal, Store
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics
from leasehold.worker import Handlers, Job, Worker, heartbeat
from leasehold.worker.heartbeat import Leases

# The worker itself believes in its lease for as long as a test runs.
LONG = Leases(busy=HOUR, idle=HOUR)
# The worker that reclaims looks for orphans with each heartbeat, every 10 s.
HALF_A_MINUTE = Leases(busy=timedelta(seconds=30), idle=timedelta(seconds=30))
MINUTE_LEASES = Leases(busy=timedelta(seconds=60), idle=timedelta(seconds=60))


class Stalled:
    """A worker that runs the first attempt of a job, and whose lease has run out in the database meanwhile."""

    def __init__(self, shop: Workplace, kit: engine.TestKit) -> None:
        self._shop, self._kit = shop, kit
        self._stores = SilentStores(kit)
        self._began, self._may_end = asyncio.Event(), asyncio.Event()
        self.own, self.heir = Metrics(), Metrics()

    def handlers(self) -> Handlers:
        async def report(job: Job, payload: Payload) -> None:
            if job.attempt == 1:
                self._began.set()
                await self._may_end.wait()

        return only(report, backoff=AT_ONCE)

    @asynccontextmanager
    async def overtaken(self) -> AsyncIterator[JobId]:
        """Yields the job of the worker when another worker has reclaimed the job, and has run it."""
        stalled = self._shop.working(self.handlers(), self._stores, observe=self.own, leases=LONG, slots=1)
        async with stalled as self._worker:
            job = await self._shop.enqueue()
            await asyncio.wait_for(self._began.wait(), PATIENCE.total_seconds())
            await self._stores.fall_silent()
            await self._kit.clock().move(2 * HOUR)
            async with self._shop.working(self.handlers(), observe=self.heir, leases=HALF_A_MINUTE):
                assert (await self._shop.ended(job)).status is Status.SUCCEEDED
            try:
                yield job
            finally:
                self._stores.speak()

    def learn_of_the_loss(self) -> None:
        """Lets the worker send a heartbeat, whose answer says that its lease is lost."""
        self._stores.speak()
        session_of(self._worker).heartbeat.hurry()

    def finish_late(self) -> None:
        """Lets the handler end while the worker does not know of its loss."""
        self._may_end.set()

    async def until_discarded(self) -> None:
        async def is_discarded() -> bool:
            return samples_of(self.own).total("leasehold_attempts_total", status="discarded") == 1

        await eventually(is_discarded, what="the end of the stale attempt in the metrics")


@pytest.fixture
def stalled(shop: Workplace, kit: engine.TestKit) -> Stalled:
    return Stalled(shop, kit)


async def test_a_lost_lease_is_counted_by_both_workers(shop: Workplace, stalled: Stalled) -> None:
    async with stalled.overtaken() as job:
        stalled.learn_of_the_loss()
        await stalled.until_discarded()
    assert await shop.statuses(job) == [AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED]
    assert reclaimed(samples_of(stalled.heir)) == 1
    own = samples_of(stalled.own)
    assert own.total("leasehold_leases_lost_total", job_type="report") == 1
    assert own.total("leasehold_registrations_lost_total") == 1
    assert own.total("leasehold_finishes_refused_total") == 0
    assert own.total("job_completed_total") == 0


async def test_a_stale_finish_is_counted_as_refused(shop: Workplace, stalled: Stalled) -> None:
    async with stalled.overtaken() as job:
        stalled.finish_late()
        await stalled.until_discarded()
    assert await shop.statuses(job) == [AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED]
    assert reclaimed(samples_of(stalled.heir)) == 1
    own = samples_of(stalled.own)
    assert own.total("leasehold_finishes_refused_total", job_type="report") == 1
    assert own.total("leasehold_attempts_total", status="succeeded") == 0
    assert own.total("job_completed_total") == 0


def reclaimed(samples: Samples) -> float:
    """Returns how many leases were reclaimed, each of which is a crashed attempt that is tried again."""
    count = samples.total("leasehold_leases_reclaimed_total", job_type="report")
    assert samples.total("leasehold_attempts_total", status="crashed") == count
    assert samples.total("leasehold_retries_total") == count
    assert samples.total("job_completed_total", status="success") == 1
    return count


class SlowAnswers:
    """Opens stores whose answers to heartbeats take so many seconds, by the clock of heartbeats."""

    def __init__(self, kit: engine.TestKit, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kit = kit
        self._passed = 0.0
        self.seconds = 0.0
        self.answers = 0
        monkeypatch.setattr(heartbeat, "monotonic", lambda: monotonic() + self._passed)

    async def __call__(self) -> Store:
        store = await self._kit.open()
        renew = store.renew

        async def slow(*arguments: Any, **named: Any) -> Renewal:
            answer = await renew(*arguments, **named)
            self._passed, self.seconds = self._passed + self.seconds, 0.0
            self.answers += 1
            return answer

        store.renew = slow  # type: ignore[method-assign]
        return store

    async def beat(self, worker: Worker) -> None:
        """Lets the worker send a heartbeat at once, and returns when one was answered."""
        before = self.answers
        session_of(worker).heartbeat.hurry()

        async def is_answered() -> bool:
            return self.answers > before

        await eventually(is_answered, what="the answer to a heartbeat")


async def test_heartbeats_that_come_late_are_counted(
    shop: Workplace, kit: engine.TestKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat is due 20 s after the one before it was sent. One answer takes 25 s: it is late, and the next."""

    async def report(job: Job, payload: Payload) -> None: ...

    def late() -> float:
        return samples_of(metrics).total("leasehold_heartbeats_late_total")

    metrics, answers = Metrics(), SlowAnswers(kit, monkeypatch)
    async with shop.working(only(report), answers, observe=metrics, leases=MINUTE_LEASES, notify=False) as worker:
        for _ in range(3):
            await answers.beat(worker)
        assert late() == 0
        answers.seconds = 25
        for _ in range(5):
            await answers.beat(worker)
    assert late() == 2
    assert samples_of(metrics).total("leasehold_registrations_lost_total") == 0


async def test_the_lag_of_a_scheduler_is_that_of_its_fires(shop: Workplace, timetable: Timetable) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    await timetable.add()
    metrics = Metrics()
    listeners = Listeners([metrics])
    await timetable.clock.move(HOUR + 90 * SECOND)
    overdue = samples_of(metrics, await shop.store.fleet_snapshot(timedelta()))
    async with shop.working(only(report), observe=listeners, make_schedules=partial(FireLoop, listeners=listeners)):
        await timetable.until_fired(1)

        async def is_counted() -> bool:
            return samples_of(metrics).total("leasehold_scheduler_lag_seconds_count") == 1

        await eventually(is_counted, what="the decision in the metrics")
    seen = samples_of(metrics)
    assert overdue.total("leasehold_schedule_overdue_seconds") == 90
    assert seen.total("leasehold_scheduler_lag_seconds_sum") == 90
    assert seen.total("leasehold_scheduler_lag_seconds_bucket", le="60.0") == 0
    assert seen.total("leasehold_scheduler_lag_seconds_bucket", le="300.0") == 1
    assert seen.total("leasehold_trigger_decisions_total", kind="fired") == 1

"""Handlers that can't be stopped, and threads that can't be started: the worker goes on, or ends in good order."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, Raw, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import QUICKLY, SETTINGS, Payload, Shop, only

from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.status import AttemptStatus, Status
from leasehold.telemetry import Event
from leasehold.worker import Handlers, Job, Worker, attempt, worker
from leasehold.worker.attempt import Attempt
from leasehold.worker.stuck import StuckHandlers, TooManyStuck

TIMEOUT, SUCCEEDED = AttemptStatus.TIMEOUT, AttemptStatus.SUCCEEDED


@pytest.fixture(autouse=True)
def margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "MARGIN", 0.05)


class Stuck:
    """Handlers that go on until the test lets them go, whatever they are told."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.let_go = asyncio.Event()
        self.let_threads_go = threading.Event()
        self.running = 0
        self.began = asyncio.Event()

    async def swallow(self, job: Job, payload: Payload) -> str:
        self.running += 1
        self.began.set()
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self.let_go.wait()
        self.running -= 1
        return "too late"

    def block(self, job: Job, payload: Payload) -> None:
        self.loop.call_soon_threadsafe(self.began.set)
        assert self.let_threads_go.wait(3 * PATIENCE.total_seconds())

    async def end(self) -> None:
        self.let_go.set()
        self.let_threads_go.set()

        async def gone() -> bool:
            return not self.running

        await eventually(gone, what="the end of the stuck coroutines")


@pytest.fixture
async def stuck() -> Any:
    made = Stuck()
    yield made
    await made.end()


async def done(job: Job, payload: Payload) -> None: ...


def both(stuck: Callable[..., Any], good: Callable[..., Any] = done, **of_stuck: Any) -> Handlers:
    handlers = only(stuck, "stuck", **of_stuck)
    handlers.add(Definition("good", timeout=of_stuck.get("timeout", timedelta(hours=1)), max_attempts=1))(good)
    return handlers


# Coroutines that swallow their cancel


async def test_a_timed_out_coroutine_that_goes_on_is_abandoned(shop: Shop, stuck: Stuck) -> None:
    handlers = both(stuck.swallow, timeout=QUICKLY, max_attempts=1)
    async with shop.working(handlers, slots=1):
        job = await shop.enqueue("stuck")
        assert (await shop.ended(job)).status is Status.DEAD_LETTER
        assert (await shop.ended(await shop.enqueue("good"))).status is Status.SUCCEEDED
    assert await shop.statuses(job) == [TIMEOUT]


async def test_a_canceled_coroutine_that_goes_on_is_abandoned(shop: Shop, stuck: Stuck) -> None:
    async with shop.working(only(stuck.swallow), slots=1):
        job = await shop.enqueue()
        await asyncio.wait_for(stuck.began.wait(), PATIENCE.total_seconds())
        await shop.jobs.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED


async def test_an_abandoned_coroutine_is_given_back_at_shutdown(
    shop: Shop, stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    async with shop.working(only(stuck.swallow), observe=events.append):
        job = await shop.enqueue()
        await asyncio.wait_for(stuck.began.wait(), PATIENCE.total_seconds())
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert [event.event for event in events][-2:] == ["job.given_back", "worker.left"]
    assert "these handlers still run in its process: report (1)" in caplog.text


async def test_the_late_result_of_an_abandoned_coroutine_is_ignored(shop: Shop, stuck: Stuck) -> None:
    handlers = only(stuck.swallow, timeout=QUICKLY, max_attempts=1)
    async with shop.working(handlers) as worker:
        job = await shop.enqueue()
        await shop.ended(job)
        assert worker.state().stuck == 1
        await stuck.end()

        async def counted_no_more() -> bool:
            return not worker.state().stuck

        await eventually(counted_no_more, what="the end of the stuck handler")
    record = await shop.job(job)
    assert (record.status, record.result) == (Status.DEAD_LETTER, None)
    assert await shop.statuses(job) == [TIMEOUT]


async def test_what_an_abandoned_coroutine_wrote_is_rolled_back(shop: Shop, stuck: Stuck, observer: Raw) -> None:
    await observer.execute("create table public.written (job text)")

    async def report(job: Job, payload: Payload) -> None:
        async with job.transaction() as connection:
            await connection.execute("insert into public.written values ($1)", job.id)
            await stuck.swallow(job, payload)

    async with shop.working(only(report, timeout=QUICKLY, max_attempts=1)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.DEAD_LETTER

        async def rolled_back() -> bool:
            open_ones = "select count(*) from pg_locks where relation = 'public.written'::regclass and pid <> $1"
            return not await observer.fetchval(open_ones, observer.get_server_pid())

        await eventually(rolled_back, what="the end of the transaction")
    assert await observer.fetchval("select count(*) from public.written") == 0


async def test_attempts_of_a_lost_registration_are_reported_as_discarded(shop: Shop, stuck: Stuck) -> None:
    events: list[Event] = []
    async with shop.working(only(stuck.swallow), observe=events.append):
        await shop.enqueue()
        await asyncio.wait_for(stuck.began.wait(), PATIENCE.total_seconds())
        await shop.observer.execute("delete from leasehold.workers")

        async def told() -> bool:
            return "job.discarded" in [event.event for event in events]

        await eventually(told, what="the end of the run")
    assert [event.event for event in events].count("job.discarded") == 1


# Too many of them


async def run_to_its_end(shop: Shop, handlers: Handlers, enqueue: Callable[[], Any], **settings: Any) -> Worker:
    made = Worker(shop.stores, handlers, replace(SETTINGS, tenants=(ACME,), **settings))
    task = asyncio.create_task(made.run())
    await made.joined.wait()
    await enqueue()
    await asyncio.wait([task], timeout=PATIENCE.total_seconds())
    assert task.done(), "the worker did not end"
    with pytest.raises(TooManyStuck, match="stuck"):
        task.result()
    return made


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_a_worker_ends_when_too_many_handlers_are_stuck(
    shop: Shop, stuck: Stuck, colour: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "MOST_STUCK", 3)
    handlers = both(stuck.swallow if colour == "async" else stuck.block, timeout=QUICKLY, max_attempts=1)

    async def enqueue() -> None:
        await shop.enqueue_many(8, "stuck")

    await run_to_its_end(shop, handlers, enqueue, slots=2)
    assert await shop.store.workers() == []
    assert "stuck (6)" in caplog.text


async def test_what_still_runs_when_too_many_are_stuck_may_end(
    shop: Shop, stuck: Stuck, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Claiming ends at once, but a good handler has the grace."""
    monkeypatch.setattr(worker, "MOST_STUCK", -2)

    async def has_given_up() -> bool:
        return "claims nothing more" in caplog.text

    async def good(job: Job, payload: Payload) -> None:
        await eventually(has_given_up, what="the worker that gives up")

    handlers = only(stuck.swallow, "stuck", timeout=QUICKLY, max_attempts=1)
    handlers.add(Definition("good"))(good)
    jobs = []

    async def enqueue() -> None:
        jobs.append(await shop.enqueue("good"))
        await shop.enqueue_many(2, "stuck")

    await run_to_its_end(shop, handlers, enqueue, slots=3)
    assert await shop.statuses(jobs[0]) == [SUCCEEDED]


# Threads


async def test_a_job_that_waits_for_a_thread_does_not_time_out(
    shop: Shop, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good handlers became dead letters without having run, when 1,050 stuck ones had all threads."""
    monkeypatch.setattr(worker, "MOST_ABANDONED", 0)
    struck, time_out = asyncio.Event(), Attempt.time_out

    def noted(self: Attempt) -> None:
        time_out(self)
        if self.name == "good":
            struck.set()

    monkeypatch.setattr(Attempt, "time_out", noted)

    def good(job: Job, payload: Payload) -> None: ...

    handlers = both(stuck.block, good, timeout=QUICKLY, max_attempts=1)
    monkeypatch.setattr(worker, "StuckHandlers", lambda *_: StuckHandlers())  # of which there may be any number
    async with shop.working(handlers, slots=1):
        assert (await shop.ended(await shop.enqueue("stuck"))).status is Status.DEAD_LETTER
        job = await shop.enqueue("good")
        await asyncio.wait_for(struck.wait(), PATIENCE.total_seconds())
        stuck.let_threads_go.set()
        assert (await shop.ended(job)).status is Status.SUCCEEDED


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The system refuses handlers their threads for as long as there is something in this list."""
    refuses, start = ["threads"], threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if refuses and self.name.startswith("leasehold-handler"):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)
    yield refuses
    refuses.clear()


async def test_a_job_whose_thread_is_refused_runs_later_and_once(
    shop: Shop, refusing: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The attempt was recorded as failed, and its call ran beside the next one: 20 of 20."""
    ran: list[tuple[str, int]] = []

    def report(job: Job, payload: Payload) -> None:
        ran.append((job.id, job.attempt))

    async with shop.working(only(report, max_attempts=1, backoff=Steps(0))):
        job = await shop.enqueue()
        await shop.waits_again(job)
        refusing.clear()
        record = await shop.ended(job)
    assert (record.status, record.free_attempts) == (Status.SUCCEEDED, record.attempt - 1)
    assert ran == [(job, record.attempt)]
    assert "refused to start a thread" in caplog.text


async def test_a_worker_without_threads_claims_ever_more_slowly(
    shop: Shop, refusing: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No more than a batch for each pause, and pauses grow."""

    def report(job: Job, payload: Payload) -> None: ...

    async with shop.working(only(report), slots=5):
        jobs = await shop.enqueue_many(20)

        async def refused_thrice() -> bool:
            return sum("refused to start a thread" in text for text in caplog.messages) >= 3

        await eventually(refused_thrice, what="three pauses")
        records = [await shop.job(job) for job in jobs]
        refusing.clear()
        assert sum(record.attempt for record in records) <= 3 * 5
        await shop.all_ended(jobs)
    pauses = [float(text.split()[-2]) for text in caplog.messages if "refused to start a thread" in text]
    assert pauses == sorted(pauses)

"""An attempt: its timeout, its cancel, and the jobs whose handler must not run."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from tests.conftest import PATIENCE, Clock, eventually
from tests.tenant_kit import HOUR
from tests.worker.shop import AT_ONCE, QUICKLY, Payload, Shop, for_ever, only, wait_for

from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Job

# Where one attempt hangs and the next does not, but has to get a thread first.
PATIENTLY = timedelta(seconds=3)
FAILED, TIMEOUT, SNOOZED = AttemptStatus.FAILED, AttemptStatus.TIMEOUT, AttemptStatus.SNOOZED
SUCCEEDED, CANCELED = AttemptStatus.SUCCEEDED, AttemptStatus.CANCELED


async def test_a_handler_that_takes_too_long_is_stopped_and_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            await for_ever()

    async with shop.working(only(report, timeout=QUICKLY, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.statuses(job) == [TIMEOUT, SUCCEEDED]
    assert "longer than its timeout of 0.1 s" in ((await shop.jobs.attempts(job))[0].error or "")


async def test_a_handler_that_cleans_up_after_a_timeout_has_timed_out(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        try:
            await for_ever()
        except asyncio.CancelledError as stop:
            raise ValueError("the connection was not closed") from stop

    async with shop.working(only(report, timeout=QUICKLY, max_attempts=1)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).last_error_code == "timeout"
    assert await shop.statuses(job) == [TIMEOUT]


async def test_a_sync_handler_that_takes_too_long_is_told_and_retried(shop: Shop) -> None:
    told = threading.Event()

    def report(job: Job, payload: Payload) -> None:
        if job.attempt > 1:
            return
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        if job.canceled:
            told.set()

    async with shop.working(only(report, timeout=PATIENTLY, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
        assert await shop.statuses(job) == [TIMEOUT, SUCCEEDED]
        assert await asyncio.to_thread(told.wait, PATIENCE.total_seconds())


async def test_a_cancel_stops_an_async_handler_of_a_busy_worker(shop: Shop) -> None:
    """Every slot is taken, and the next heartbeat is 20 s away: the wake brings it."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        try:
            await for_ever()
        finally:
            stopped.set()

    async with shop.working(only(report), slots=1):
        job = await shop.enqueue()
        await asyncio.wait_for(began.wait(), PATIENCE.total_seconds())
        await shop.jobs.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED
    assert stopped.is_set()
    assert await shop.statuses(job) == [CANCELED]


async def test_a_sync_handler_that_is_canceled_may_end_in_its_own_way(shop: Shop) -> None:
    began = threading.Event()

    def report(job: Job, payload: Payload) -> str:
        began.set()
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        return "half of it"

    async with shop.working(only(report), slots=1):
        job = await shop.enqueue()
        await asyncio.to_thread(wait_for, began)
        await shop.jobs.cancel([job])
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.SUCCEEDED, "half of it")


async def test_a_sync_handler_that_raises_when_canceled_is_canceled(shop: Shop) -> None:
    began = threading.Event()

    def report(job: Job, payload: Payload) -> None:
        began.set()
        deadline = monotonic() + PATIENCE.total_seconds()
        while not job.canceled and monotonic() < deadline:
            threading.Event().wait(0.005)
        raise InterruptedError("told to stop")

    async with shop.working(only(report, backoff=AT_ONCE), slots=1):
        job = await shop.enqueue()
        await asyncio.to_thread(wait_for, began)
        await shop.jobs.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED


async def test_a_canceled_thread_is_abandoned_when_the_worker_stops(shop: Shop) -> None:
    """Its worker leaves its registration behind in good order all the same."""
    began, told, let_go = threading.Event(), threading.Event(), threading.Event()

    def report(job: Job, payload: Payload) -> None:
        began.set()
        while not let_go.wait(0.005):
            if job.canceled:
                told.set()

    try:
        async with shop.working(only(report)):
            job = await shop.enqueue()
            await asyncio.to_thread(wait_for, began)
            await shop.jobs.cancel([job])
            await asyncio.to_thread(wait_for, told)
        assert (await shop.job(job)).status is Status.CANCELED
        assert await shop.store.workers() == []
    finally:
        let_go.set()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class SpokenByExiting(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


class SpokenByInterrupting(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class OfNoKnownKind(BaseException): ...


ODDITIES = [
    SystemExit(3),
    asyncio.CancelledError("someone else's task was canceled"),
    StopIteration("no first element"),
    GeneratorExit("odd"),
    OfNoKnownKind("odd"),
    Unspeakable(),
    SpokenByExiting(),
    SpokenByInterrupting(),
]


@pytest.mark.parametrize("oddity", ODDITIES, ids=lambda oddity: type(oddity).__name__)
@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_whatever_a_handler_raises_ends_its_attempt_and_nothing_else(
    shop: Shop, oddity: BaseException, colour: str
) -> None:
    async def on_the_loop(job: Job, payload: Payload) -> None:
        if payload.get("odd"):
            raise oddity

    def in_a_thread(job: Job, payload: Payload) -> None:
        if payload.get("odd"):
            raise oddity

    call = on_the_loop if colour == "async" else in_a_thread
    async with shop.working(only(call, max_attempts=1), slots=1):
        odd = await shop.ended(await shop.enqueue(payload={"odd": True}))
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    assert odd.status is Status.DEAD_LETTER
    # "async def" turns a StopIteration into a RuntimeError; a thread has nothing that would.
    assert odd.last_error_code in (type(oddity).__name__, "RuntimeError")


async def rewritten(shop: Shop, payload: str) -> None:
    """A payload written by SQL, past our checks."""
    await shop.observer.execute("update leasehold.jobs set payload = $1::jsonb where correlation_id = 'odd'", payload)


@pytest.mark.parametrize(
    ("payload", "message"),
    [('{"customer": "Ada"}', "payload.customer"), ("[]", "payload")],
    ids=["it does not fit", "it is not an object"],
)
async def test_a_payload_that_is_not_valid_fails_its_own_job_without_a_run(
    shop: Shop, payload: str, message: str
) -> None:
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"customer": {"type": "integer"}}, "required": ["customer"]}

    async def report(job: Job, payload: Payload) -> None:
        ran.append(payload["customer"])

    handlers = only(report, schema=schema)
    await shop.store.sync_definitions(handlers.definitions)
    before = await shop.enqueue(payload={"customer": 1})
    odd = await shop.enqueue(payload={"customer": 2}, correlation_id="odd")
    after = await shop.enqueue(payload={"customer": 3})
    await rewritten(shop, payload)
    async with shop.working(handlers):
        records = await shop.all_ended([before, odd, after])
    assert [record.status for record in records] == [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED]
    assert records[1].last_error_code == "payload_invalid"
    assert message in (records[1].last_error or "")
    assert sorted(ran) == [1, 3]


async def test_an_unreadable_payload_fails_its_own_job_without_a_run(shop: Shop) -> None:
    """jsonb nests deeper than our parser reads. Such a row is looked at by SQL: our own reader refuses it, too."""
    ran: list[Any] = []

    async def report(job: Job, payload: Payload) -> None:
        ran.append(payload["customer"])

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    odd = await shop.enqueue(payload={"customer": 1}, correlation_id="odd")
    after = await shop.enqueue(payload={"customer": 2})
    await rewritten(shop, "[" * 1100 + "]" * 1100)
    async with shop.working(handlers):
        assert (await shop.ended(after)).status is Status.SUCCEEDED

        async def failed() -> bool:
            status = "select status from leasehold.jobs_done where id = $1::uuid"
            return bool(await shop.observer.fetchval(status, odd) == "failed")

        await eventually(failed, what="the end of the job that can't be read")
    (attempt,) = await shop.jobs.attempts(odd)
    assert (attempt.status, attempt.error_code) == (FAILED, "payload_invalid")
    assert "can't be read" in (attempt.error or "")
    assert ran == [2]


async def test_a_job_whose_deadline_has_passed_fails_without_a_run(shop: Shop, clock: Clock) -> None:
    ran: list[str] = []

    async def report(job: Job, payload: Payload) -> None:
        ran.append(job.id)

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    late = await shop.enqueue(deadline=datetime.now(UTC) + HOUR)
    await clock.move(2 * HOUR)
    in_time = await shop.enqueue(deadline=datetime.now(UTC) + 3 * HOUR)
    async with shop.working(handlers):
        records = await shop.all_ended([late, in_time])
    assert [record.status for record in records] == [Status.FAILED, Status.SUCCEEDED]
    assert records[0].last_error_code == "deadline_passed"
    assert ran == [in_time]

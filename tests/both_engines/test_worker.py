"""A worker does the same on each engine: claims, runs and finishes, stops in good order, and loses no job."""

import asyncio
import threading
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import HOUR, SECOND
from tests.worker.isolated_kit import IsolatedAt
from tests.worker.shop import AT_ONCE, QUICKLY, Payload, Workplace, for_ever, only
from tests.worker.test_commands import shell

from leasehold import engine
from leasehold.model.job import LineKind
from leasehold.model.outcome import LeaseLost, decide
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Fail, Handlers, Job, Snooze
from leasehold.worker.heartbeat import Leases

CANCELED, FAILED, GIVEN_BACK = AttemptStatus.CANCELED, AttemptStatus.FAILED, AttemptStatus.GIVEN_BACK
CRASHED, SNOOZED, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.SNOOZED, AttemptStatus.SUCCEEDED
SHORT = Leases(busy=3 * SECOND, idle=3 * SECOND)


class Held:
    """A handler that runs until the test lets it end."""

    def __init__(self) -> None:
        self.began, self.may_end, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def handlers(self, **fields: Any) -> Handlers:
        async def report(job: Job, payload: Payload) -> str:
            self.began.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "done"

        return only(report, **fields)

    async def wait_until(self, event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), PATIENCE.total_seconds())


@pytest.fixture
def held() -> Held:
    return Held()


# -------------------------------------------------------------------------------------------------------- outcomes


async def test_jobs_are_claimed_run_and_finished(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> Payload:
        return {"seen": payload["number"]}

    async with shop.working(only(report), slots=3):
        jobs = [await shop.enqueue(payload={"number": number}) for number in range(5)]
        records = await shop.all_ended(jobs)
    assert [(record.status, record.result) for record in records] == [
        (Status.SUCCEEDED, {"seen": number}) for number in range(5)
    ]


async def test_a_function_runs_in_a_thread(shop: Workplace) -> None:
    def report(job: Job, payload: Payload) -> bool:
        return threading.current_thread() is threading.main_thread()

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result is False


async def test_an_error_is_kept_and_the_job_is_run_again(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> int:
        if job.attempt == 1:
            raise ValueError("no luck")
        return job.attempt

    async with shop.working(only(report, backoff=AT_ONCE)):
        record = await shop.ended(job := await shop.enqueue())
    assert (record.status, record.result, record.last_error) == (Status.SUCCEEDED, 2, "no luck")
    assert await shop.statuses(job) == [FAILED, SUCCEEDED]


async def test_a_job_that_fails_each_time_is_a_dead_letter(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise ValueError("never")

    async with shop.working(only(report, backoff=AT_ONCE, max_attempts=2)):
        record = await shop.ended(job := await shop.enqueue())
    assert record.status is Status.DEAD_LETTER
    assert await shop.statuses(job) == [FAILED, FAILED]


async def test_a_decision_to_fail_is_final(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise Fail("no such order")

    async with shop.working(only(report, backoff=AT_ONCE)):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.attempt, record.last_error) == (Status.FAILED, 1, "no such order")


async def test_a_snooze_uses_no_try(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> None:
        if job.attempt < 3:
            raise Snooze(0)

    async with shop.working(only(report, max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    assert (record.status, record.free_attempts) == (Status.SUCCEEDED, 2)
    assert await shop.statuses(job) == [SNOOZED, SNOOZED, SUCCEEDED]


async def test_a_handler_past_its_timeout_is_stopped(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> None:
        await for_ever()

    async with shop.working(only(report, timeout=QUICKLY, max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "timeout")
    assert await shop.statuses(job) == [AttemptStatus.TIMEOUT]


async def test_log_lines_and_progress_are_kept(shop: Workplace) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log("began")
        job.progress(0.5, "half")

    async with shop.working(only(report)):
        await shop.ended(job := await shop.enqueue())
    lines = [(line.kind, line.text, line.progress) for line in await shop.lines(job)]
    assert sorted(lines) == sorted([(LineKind.LOG, "began", None), (LineKind.PROGRESS, "half", 0.5)])


async def test_a_handler_runs_in_a_process_of_its_own(isolated: IsolatedAt[Workplace]) -> None:
    async with isolated.working() as (_, pool):
        result = (await isolated.shop.ended(await isolated.enqueue("tell", number=5))).result
        assert (result["number"], [result["pid"]]) == (5, pool.pids)


async def test_a_command_is_run_and_its_output_is_kept(shop: Workplace) -> None:
    async with shop.working(shell("echo out; exit 3", max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    (attempt,) = await shop.jobs.attempts(job)
    assert (record.status, attempt.exit_code) == (Status.DEAD_LETTER, 3)
    assert attempt.details["stdout_tail"] == "out\n"
    assert [line.text for line in await shop.lines(job) if line.kind is LineKind.STDOUT] == ["out"]


# ----------------------------------------------------------------------------------------------------- wakes, cancel


async def test_a_sleeping_worker_hears_of_a_new_job(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers()) as worker:

        async def at_rest() -> bool:
            return worker.state().at_rest

        await eventually(at_rest, what="the worker's rest")
        held.may_end.set()
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


async def test_a_cancel_stops_a_running_job(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers(), slots=1):
        job = await shop.enqueue()
        await held.wait_until(held.began)
        await shop.jobs.cancel([job])
        assert (await shop.ended(job)).status is Status.CANCELED
    assert held.stopped.is_set()
    assert await shop.statuses(job) == [CANCELED]


async def test_a_job_that_was_canceled_is_never_run(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers(), slots=1):
        first = await shop.enqueue()
        await held.wait_until(held.began)
        second = await shop.enqueue()
        await shop.jobs.cancel([second])
        held.may_end.set()
        assert [record.status for record in await shop.all_ended([first, second])] == [
            Status.SUCCEEDED,
            Status.CANCELED,
        ]
    assert await shop.statuses(second) == []


# ------------------------------------------------------------------------------------------------------ stop, leases


async def test_a_stop_lets_a_running_job_end(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers()) as worker:
        job = await shop.enqueue()
        await held.wait_until(held.began)
        worker.stop()
        held.may_end.set()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.store.workers() == []


async def test_a_stop_at_once_gives_a_job_back_at_no_cost(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers(max_attempts=1)):
        job = await shop.enqueue()
        await held.wait_until(held.began)
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await shop.statuses(job) == [GIVEN_BACK]


async def test_heartbeats_renew_the_lease_of_a_job(shop: Workplace, held: Held) -> None:
    async with shop.working(held.handlers(), leases=SHORT):
        job = await shop.enqueue()
        await held.wait_until(held.began)
        first = (await shop.job(job)).lease_expires_at
        assert first is not None

        async def renewed() -> bool:
            now = (await shop.job(job)).lease_expires_at
            return now is not None and now > first + SECOND

        await eventually(renewed, what="a later end of the lease")


async def test_a_worker_that_lost_its_lease_stops_and_joins_again(
    shop: Workplace, held: Held, kit: engine.TestKit
) -> None:
    """Its job was given back meanwhile, so it gets the job once more."""
    async with shop.working(held.handlers(backoff=AT_ONCE), leases=SHORT):
        job = await shop.enqueue()
        await held.wait_until(held.began)
        held.began.clear()

        async def evicted() -> bool:
            """A heartbeat between the two steps renews the lease."""
            await kit.clock().move(HOUR)
            claims = await shop.store.evict(10)
            await shop.store.finish([(claim, decide(LeaseLost(), claim, jitter=0)) for claim in claims])
            return bool(claims)

        await eventually(evicted, what="the eviction")
        await held.wait_until(held.stopped)
        await held.wait_until(held.began)
        held.may_end.set()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.statuses(job) == [CRASHED, SUCCEEDED]

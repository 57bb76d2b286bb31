"""Manual retry: the same job once more, with its history and a fresh allowance. And moving what waits."""

import asyncio
from datetime import timedelta
from math import nan
from typing import Any

import pytest
from tests.store.bench import BROUGHT_ID, UNKNOWN_ID, Bench, EngineUnderTest, keyed
from tests.tenant_kit import HOUR, OTHER, SECOND

from leasehold.errors import InvalidInput
from leasehold.model.bounds import LONGEST
from leasehold.model.dedupe import Always, Within
from leasehold.model.definition import DEFAULT_PRIORITY
from leasehold.model.duration import Duration
from leasehold.model.job import EnqueueResult, JobId, NewJob
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import RescheduleAnswer, RetryAnswer

ENDED = [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER]


@pytest.mark.parametrize("status", ENDED)
async def test_an_ended_job_is_queued_again(bench: Bench, status: Status) -> None:
    job = await bench.ended(status, payload={"month": 3})
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.QUEUED}
    record = await bench.job(job)
    assert (record.status, record.due, record.finished_at) == (Status.QUEUED, True, None)
    assert (record.payload, record.worker) == ({"month": 3}, None)


async def test_a_job_canceled_before_it_ran_is_queued_again(bench: Bench) -> None:
    job = await bench.enqueue()
    await bench.jobs.cancel([job])
    assert await bench.jobs.retry({job: 0}) == {job: RetryAnswer.QUEUED}
    assert (await bench.claim_one()).attempt == 1


@pytest.mark.parametrize("status", ENDED)
async def test_the_next_run_has_the_next_number_and_the_history_is_kept(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    (first,) = await bench.jobs.attempts(job)
    await bench.jobs.retry({job: 1})
    assert list(await bench.jobs.attempts(job)) == [first]
    claim = await bench.claim_one()
    assert claim.attempt == 2
    await bench.succeed(claim)
    assert (await bench.jobs.attempts(job))[0] == first
    assert (await bench.history(job))[1:] == [(2, AttemptStatus.SUCCEEDED)]


async def test_the_allowance_is_fresh(bench: Bench) -> None:
    job = await bench.enqueue(max_attempts=2)
    for _ in range(2):
        await bench.fail(await bench.claim_one())
        await bench.move_clock(HOUR)
    await bench.jobs.retry({job: 2})
    for execution in (1, 2):
        claim = await bench.claim_one()
        assert (claim.attempt, claim.tries, claim.max_attempts) == (2 + execution, execution, 2)
        await bench.fail(claim)
        await bench.move_clock(HOUR)
    assert await bench.status(job) is Status.DEAD_LETTER


async def test_a_retry_of_another_attempt_is_told_that_it_changed(bench: Bench) -> None:
    job = await bench.succeeded()
    assert await bench.jobs.retry({job: 0}) == {job: RetryAnswer.CHANGED}
    assert await bench.status(job) is Status.SUCCEEDED


async def test_a_second_retry_after_the_first_ones_run_makes_no_second_run(bench: Bench) -> None:
    job = await bench.succeeded()
    await bench.jobs.retry({job: 1})
    await bench.succeed(await bench.claim_one())
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.CHANGED}
    assert await bench.claim() == []


async def test_eight_retries_at_once_make_one_run(bench: Bench) -> None:
    job = await bench.succeeded()
    answers = [answer[job] for answer in await asyncio.gather(*(bench.jobs.retry({job: 1}) for _ in range(8)))]
    assert answers.count(RetryAnswer.QUEUED) == 1
    assert set(answers) - {RetryAnswer.QUEUED} <= {RetryAnswer.ACTIVE, RetryAnswer.CHANGED}
    assert await bench.claimed_jobs() == [job]


async def test_a_waiting_job_is_active(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    assert await bench.jobs.retry({job: 0}) == {job: RetryAnswer.ACTIVE}
    assert not (await bench.job(job)).due


async def test_a_running_job_is_active(bench: Bench) -> None:
    claim = await bench.running()
    assert await bench.jobs.retry({claim.job: 1}) == {claim.job: RetryAnswer.ACTIVE}
    assert await bench.status(claim.job) is Status.RUNNING


async def test_an_unknown_job_and_another_tenants_are_unknown(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    theirs = await other.succeeded()
    asked = dict.fromkeys([UNKNOWN_ID, BROUGHT_ID, theirs], 1)
    assert await acme.jobs.retry(asked) == dict.fromkeys(asked, RetryAnswer.UNKNOWN)
    assert await other.status(theirs) is Status.SUCCEEDED


async def test_many_are_answered_one_by_one(bench: Bench) -> None:
    first, second = await bench.succeeded(), await bench.failed()
    waiting = await bench.enqueue()
    assert await bench.jobs.retry({first: 1, second: 2, waiting: 0}) == {
        first: RetryAnswer.QUEUED,
        second: RetryAnswer.CHANGED,
        waiting: RetryAnswer.ACTIVE,
    }


async def test_a_retried_job_comes_after_older_ready_ones(bench: Bench) -> None:
    job = await bench.succeeded()
    waiting = await bench.enqueue_many(2)
    await bench.jobs.retry({job: 1})
    assert await bench.claimed_jobs() == [*waiting, job]


async def test_a_retried_job_has_forgotten_that_it_was_canceled(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    await bench.fail(claim)
    await bench.jobs.retry({claim.job: 1})
    again = await bench.claim_one()
    assert not again.cancel_requested
    await bench.fail(again)
    assert await bench.status(claim.job) is Status.QUEUED


async def test_a_key_that_another_job_holds_now_is_in_the_way(bench: Bench) -> None:
    job = await bench.succeeded(dedupe=keyed())
    await bench.enqueue(dedupe=keyed())
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.DUPLICATE}
    assert await bench.status(job) is Status.SUCCEEDED


async def test_an_expired_key_that_another_job_took_is_in_the_way(bench: Bench) -> None:
    job = await bench.succeeded(dedupe=keyed(Within(HOUR)))
    await bench.move_clock(HOUR)
    await bench.enqueue(dedupe=keyed(Within(HOUR)))
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.DUPLICATE}


async def test_a_job_is_not_in_its_own_way(bench: Bench) -> None:
    jobs = [await bench.succeeded(dedupe=keyed(mode, str(mode))) for mode in (None, Within(HOUR), Always())]
    assert await bench.jobs.retry(dict.fromkeys(jobs, 1)) == dict.fromkeys(jobs, RetryAnswer.QUEUED)


async def test_a_retried_job_holds_its_key_again(bench: Bench) -> None:
    job = await bench.succeeded(dedupe=keyed())
    await bench.jobs.retry({job: 1})
    (placed,) = await bench.jobs.enqueue([NewJob(definition="report", dedupe=keyed())])
    assert placed == EnqueueResult(job, created=False)


async def test_one_of_two_ended_jobs_with_a_key_is_queued_again(bench: Bench) -> None:
    jobs = [await bench.succeeded(dedupe=keyed()) for _ in range(2)]
    answers = await asyncio.gather(*(bench.jobs.retry({job: 1}) for job in jobs))
    assert sorted(answer for each in answers for answer in each.values()) == ["duplicate", "queued"]


async def test_one_of_two_ended_jobs_with_one_key_is_queued_again(bench: Bench) -> None:
    jobs = [await bench.succeeded(dedupe=keyed()) for _ in range(2)]
    answers = await bench.jobs.retry(dict.fromkeys(jobs, 1))
    assert sorted(answers.values()) == ["duplicate", "queued"]


# Reschedule


async def reschedule(
    bench: Bench, job: JobId, delay: Duration | None = None, priority: int | None = None
) -> RescheduleAnswer:
    return (await bench.jobs.reschedule([job], delay, priority))[job]


async def test_a_future_job_can_be_run_now(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    assert await reschedule(bench, job, timedelta()) is RescheduleAnswer.RESCHEDULED
    assert (await bench.job(job)).due
    assert await bench.claimed_jobs() == [job]


async def test_a_job_that_waits_for_its_retry_can_be_run_now(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    assert await reschedule(bench, claim.job, timedelta()) is RescheduleAnswer.RESCHEDULED
    assert (await bench.claim_one()).tries == 2


async def test_a_ready_job_can_be_put_off(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await reschedule(bench, job, HOUR) is RescheduleAnswer.RESCHEDULED
    assert await bench.claim() == []
    await bench.move_clock(HOUR)
    assert await bench.claimed_jobs() == [job]


async def test_a_delay_counts_from_now(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    await bench.move_clock(HOUR / 2)
    await reschedule(bench, job, HOUR)
    await bench.move_clock(HOUR / 2)
    assert not (await bench.job(job)).due


@pytest.mark.abilities("priorities")
async def test_a_priority_can_be_changed_and_the_time_stays(bench: Bench) -> None:
    first, second, future = await bench.enqueue(), await bench.enqueue(), await bench.enqueue(delay=HOUR)
    await bench.jobs.reschedule([second, future], priority=1)
    assert await bench.claimed_jobs() == [second, first]
    assert [(await bench.job(job)).priority for job in (first, second, future)] == [100, 1, 1]


async def test_a_delay_alone_leaves_the_priority(bench: Bench) -> None:
    job = await bench.enqueue(priority=7)
    await reschedule(bench, job, HOUR)
    assert (await bench.job(job)).priority == 7


async def test_a_running_job_can_not_be_moved(bench: Bench) -> None:
    claim = await bench.running()
    before = await bench.job(claim.job)
    assert await reschedule(bench, claim.job, HOUR, 1) is RescheduleAnswer.NOT_WAITING
    assert await bench.job(claim.job) == before


@pytest.mark.parametrize("status", ENDED)
async def test_an_ended_job_can_not_be_moved(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    before = await bench.job(job)
    assert await reschedule(bench, job, timedelta(), 1) is RescheduleAnswer.NOT_WAITING
    assert await bench.job(job) == before


async def test_an_unknown_job_and_another_tenants_can_not_be_moved(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    theirs = await other.enqueue()
    asked = [UNKNOWN_ID, BROUGHT_ID, theirs]
    assert await acme.jobs.reschedule(asked, HOUR) == dict.fromkeys(asked, RescheduleAnswer.UNKNOWN)
    assert (await other.job(theirs)).due


@pytest.mark.parametrize("delay", ["1h", 3600, HOUR], ids=repr)
async def test_a_job_is_rescheduled_by_any_duration(bench: Bench, delay: Duration) -> None:
    job = await bench.enqueue()
    assert await reschedule(bench, job, delay) is RescheduleAnswer.RESCHEDULED
    assert await bench.claim() == []
    await bench.move_clock(2 * HOUR)
    assert [claim.job for claim in await bench.claim()] == [job]


@pytest.mark.parametrize(
    "delay", [-SECOND, timedelta.min, LONGEST + SECOND, timedelta(days=36_500_000), "36500d", nan, "soon"], ids=repr
)
async def test_a_delay_beyond_the_bounds_moves_no_job(bench: Bench, delay: Duration) -> None:
    job = await bench.enqueue()
    with pytest.raises(InvalidInput, match=r"delay=.* is not .* 3650 days|delay=.* is not a duration"):
        await reschedule(bench, job, delay)
    assert (await bench.job(job)).due


@pytest.mark.parametrize(
    "priority", [2**15, -(2**15) - 1, 10**400, 1.5, True, "1"], ids=lambda value: f"{value!r:.20}"
)
async def test_a_priority_beyond_the_bounds_moves_no_job(bench: Bench, priority: Any) -> None:
    job = await bench.enqueue()
    with pytest.raises(InvalidInput, match="priority="):
        await reschedule(bench, job, priority=priority)
    assert (await bench.job(job)).priority == DEFAULT_PRIORITY

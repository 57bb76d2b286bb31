"""Cancel: at once what waits, by request what runs; a finish that came first wins."""

import asyncio

import pytest
from tests.store.bench import BROUGHT_ID, LEASE, UNKNOWN_ID, Bench, EngineUnderTest
from tests.tenant_kit import HOUR, OTHER, SECOND

from leasehold.errors import InvalidInput
from leasehold.model.job import JobId
from leasehold.model.outcome import Canceled, LeaseLost, Outcome, Raised, Released, Snoozed, Succeeded, TimedOut
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import CancelAnswer

ENDED = [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER]
AGAIN: list[Outcome] = [Raised("Unlucky", "no jitter"), TimedOut(HOUR), Snoozed(HOUR), Released(), LeaseLost()]


async def test_a_queued_job_is_canceled_at_once(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await bench.jobs.cancel([job]) == {job: CancelAnswer.CANCELED}
    record = await bench.job(job)
    assert (record.status, record.attempt, record.worker) == (Status.CANCELED, 0, None)
    assert record.finished_at is not None
    assert await bench.claim() == []


async def test_a_future_job_is_canceled_at_once(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    assert await bench.jobs.cancel([job]) == {job: CancelAnswer.CANCELED}
    await bench.move_clock(HOUR)
    assert await bench.claim() == []


async def test_a_job_canceled_before_its_retry_keeps_its_history(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    assert await bench.jobs.cancel([claim.job]) == {claim.job: CancelAnswer.CANCELED}
    assert await bench.status(claim.job) is Status.CANCELED
    assert await bench.history(claim.job) == [(1, AttemptStatus.FAILED)]


async def test_a_running_job_gets_a_request_and_runs_on(bench: Bench) -> None:
    claim = await bench.running()
    assert await bench.jobs.cancel([claim.job]) == {claim.job: CancelAnswer.REQUESTED}
    job = await bench.job(claim.job)
    assert job.status is Status.RUNNING
    assert job.cancel_requested_at is not None


async def test_a_second_request_changes_nothing(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    before = await bench.job(claim.job)
    await bench.move_clock(SECOND)
    assert await bench.jobs.cancel([claim.job]) == {claim.job: CancelAnswer.REQUESTED}
    assert await bench.job(claim.job) == before


@pytest.mark.parametrize("status", ENDED)
async def test_an_ended_job_stays_as_it_ended(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    before = await bench.job(job)
    assert await bench.jobs.cancel([job]) == {job: CancelAnswer.ENDED}
    assert await bench.job(job) == before


async def test_an_unknown_job_is_unknown(bench: Bench) -> None:
    assert await bench.jobs.cancel([UNKNOWN_ID]) == {UNKNOWN_ID: CancelAnswer.UNKNOWN}


async def test_another_tenants_job_is_unknown_and_stays(engine: EngineUnderTest) -> None:
    job = await Bench(engine, OTHER).enqueue()
    assert await Bench(engine).jobs.cancel([job, BROUGHT_ID]) == dict.fromkeys(
        [job, BROUGHT_ID], CancelAnswer.UNKNOWN
    )
    assert await Bench(engine, OTHER).status(job) is Status.QUEUED


async def test_many_are_answered_one_by_one(bench: Bench) -> None:
    ended = await bench.succeeded()
    running = await bench.running()
    queued = await bench.enqueue()
    assert await bench.jobs.cancel([queued, UNKNOWN_ID, ended, running.job]) == {
        ended: CancelAnswer.ENDED,
        running.job: CancelAnswer.REQUESTED,
        queued: CancelAnswer.CANCELED,
        UNKNOWN_ID: CancelAnswer.UNKNOWN,
    }


@pytest.mark.parametrize("outcome", AGAIN, ids=repr)
async def test_a_running_job_that_would_run_again_ends_canceled(bench: Bench, outcome: Outcome) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    await bench.finish(claim, outcome)
    job = await bench.job(claim.job)
    assert job.status is Status.CANCELED
    assert job.finished_at is not None
    await bench.move_clock(2 * HOUR)
    assert await bench.claim() == []


async def test_a_stopped_run_ends_the_job_and_the_attempt_as_canceled(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    await bench.finish(claim, Canceled())
    assert await bench.status(claim.job) is Status.CANCELED
    assert await bench.history(claim.job) == [(1, AttemptStatus.CANCELED)]


async def test_a_run_that_succeeds_in_spite_of_the_request_has_succeeded(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    await bench.succeed(claim, '"done"')
    job = await bench.job(claim.job)
    assert (job.status, job.result) == (Status.SUCCEEDED, "done")


async def test_used_up_attempts_are_dead_letters_despite_a_cancel(bench: Bench) -> None:
    claim = await bench.running(max_attempts=1)
    await bench.jobs.cancel([claim.job])
    await bench.fail(claim)
    assert await bench.status(claim.job) is Status.DEAD_LETTER


async def test_a_finish_that_came_first_wins(bench: Bench) -> None:
    claim = await bench.running()
    await bench.succeed(claim)
    assert await bench.jobs.cancel([claim.job]) == {claim.job: CancelAnswer.ENDED}
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_a_dead_workers_job_ends_canceled_and_its_claim_says_why(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.jobs.cancel([claim.job])
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    assert orphan.cancel_requested
    await bench.finish(orphan, LeaseLost())
    assert await bench.status(claim.job) is Status.CANCELED


async def test_a_held_claim_tells_of_the_cancel_request(bench: Bench) -> None:
    claim = await bench.running()
    await bench.jobs.cancel([claim.job])
    (held,) = await bench.store.held(await bench.worker())
    assert held.cancel_requested


async def test_cancel_and_finish_at_once_agree_on_one_end(bench: Bench) -> None:
    """The second caller learns what the first one did."""
    for _ in range(10):
        claim = await bench.running()
        answers, refused = await asyncio.gather(
            bench.jobs.cancel([claim.job]), bench.finish_all([(claim, Succeeded())])
        )
        assert refused == frozenset()
        assert answers[claim.job] in {CancelAnswer.REQUESTED, CancelAnswer.ENDED}
        assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_cancel_and_claim_at_once_agree_on_who_was_first(bench: Bench) -> None:
    registration = await bench.worker()
    for _ in range(10):
        job = await bench.enqueue()
        answers, claimed = await asyncio.gather(bench.jobs.cancel([job]), bench.store.claim(registration, 1))
        if answers[job] is CancelAnswer.CANCELED:
            assert list(claimed.claims) == []
            assert await bench.status(job) is Status.CANCELED
        else:
            (claim,) = list(claimed.claims) or await bench.claim(1)
            assert answers[job] is CancelAnswer.REQUESTED
            await bench.finish(claim, Canceled())


async def test_an_id_may_be_spelled_in_any_way(bench: Bench) -> None:
    job = await bench.enqueue()
    shouted = JobId(job.upper())
    assert await bench.jobs.cancel([shouted]) == {shouted: CancelAnswer.CANCELED}
    assert (await bench.jobs.get(shouted)) == await bench.job(job)


async def test_a_malformed_id_is_refused_with_a_reason(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="is not a job id"):
        await bench.jobs.cancel([JobId("nonsense")])

"""Finish: what each verdict writes, and that a finish by anyone but the holder of the claim writes nothing."""

import orjson
import pytest
from tests.store.bench import Bench, EngineUnderTest, all_jobs
from tests.tenant_kit import HOUR, SECOND

from leasehold.model.job import Claim, tenant_id
from leasehold.model.outcome import (
    Canceled,
    LeaseLost,
    Outcome,
    Raised,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    Verdict,
)
from leasehold.model.status import AttemptStatus, DisplayState, Status

UNLUCKY = Raised("Unlucky", "no jitter")


async def test_a_success_ends_the_job_and_keeps_its_result(bench: Bench) -> None:
    claim = await bench.running()
    await bench.succeed(claim, '{"pages": 3}')
    job = await bench.job(claim.job)
    assert (job.status, job.result, job.attempt) == (Status.SUCCEEDED, {"pages": 3}, 1)
    assert (job.last_error, job.last_error_code, job.lease_expires_at) == (None, None, None)


NAMES = ['a "b" {c}', "back\\slash\\", "one,two", "null", "Ü 😀"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_tenant_may_have_any_name(engine: EngineUnderTest, name: str) -> None:
    bench = Bench(engine, tenant_id(name))
    claim = await bench.running()
    await bench.succeed(claim)
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_an_ended_job_knows_when_it_started_and_finished(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(HOUR)
    await bench.succeed(claim)
    job = await bench.job(claim.job)
    assert (job.started_at, job.queued_at) == (claim.started_at, claim.queued_at)
    assert job.finished_at is not None
    assert HOUR <= job.finished_at - claim.started_at < 2 * HOUR


@pytest.mark.parametrize("text", ["null", "false", "0", '""', "[]", '"ü 😀"', "[1, [2.5, null]]"])
async def test_a_result_comes_back_as_it_was(bench: Bench, text: str) -> None:
    claim = await bench.running()
    await bench.succeed(claim, text)
    assert (await bench.job(claim.job)).result == orjson.loads(text)


async def test_a_success_without_a_result_has_none(bench: Bench) -> None:
    assert (await bench.job(await bench.succeeded())).result is None


async def test_an_ended_job_keeps_all_that_it_was_given(bench: Bench) -> None:
    claim = await bench.running(payload={"month": 3}, priority=7, correlation_id="request-1", created_by="ada")
    before = await bench.job(claim.job)
    await bench.succeed(claim)
    after = await bench.job(claim.job)
    for kept in ("tenant", "definition", "version", "payload", "priority", "max_attempts", "scheduled_for"):
        assert getattr(after, kept) == getattr(before, kept), kept
    for kept in ("queued_at", "source", "source_ref", "correlation_id", "created_by", "attempt"):
        assert getattr(after, kept) == getattr(before, kept), kept


async def test_an_error_queues_the_job_again_after_its_backoff(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim, "the printer is on fire")
    job = await bench.job(claim.job)
    assert (job.status, job.due, job.display) == (Status.QUEUED, False, DisplayState.RETRYING)
    assert (job.last_error, job.last_error_code) == ("the printer is on fire", "Unlucky")
    assert (job.attempt, job.worker, job.lease_expires_at, job.finished_at) == (1, None, None, None)


async def test_a_retry_is_claimed_when_its_backoff_is_over_and_not_before(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    await bench.move_clock(5 * SECOND)
    assert await bench.claim() == []
    await bench.move_clock(5 * SECOND)
    again = await bench.claim_one()
    assert (again.job, again.attempt, again.tries) == (claim.job, 2, 2)


async def test_the_second_backoff_follows_the_second_error(bench: Bench) -> None:
    await bench.fail(await bench.running())
    await bench.move_clock(10 * SECOND)
    await bench.fail(await bench.claim_one())
    await bench.move_clock(15 * SECOND)
    assert await bench.claim() == []
    await bench.move_clock(5 * SECOND)
    assert (await bench.claim_one()).attempt == 3


async def test_a_retry_without_delay_is_due_at_once(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Raised("Unlucky", "no jitter", retry_in=0 * SECOND))
    assert (await bench.claim_one()).attempt == 2


async def test_a_timeout_uses_an_attempt_up(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, TimedOut(HOUR))
    job = await bench.job(claim.job)
    assert (job.status, job.last_error_code, job.free_attempts) == (Status.QUEUED, "timeout", 0)
    assert await bench.history(claim.job) == [(1, AttemptStatus.TIMEOUT)]


async def test_a_job_whose_attempts_are_used_up_becomes_a_dead_letter(bench: Bench) -> None:
    job = await bench.enqueue()
    for attempt in (1, 2, 3):
        await bench.fail(await bench.claim_one(), f"failure {attempt}")
        await bench.move_clock(HOUR)
    record = await bench.job(job)
    assert (record.status, record.attempt, record.last_error) == (Status.DEAD_LETTER, 3, "failure 3")
    assert record.finished_at is not None
    assert await bench.history(job) == [(number, AttemptStatus.FAILED) for number in (1, 2, 3)]


async def test_an_error_that_is_final_fails_the_job(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim, "never again", final=True)
    job = await bench.job(claim.job)
    assert (job.status, job.last_error, job.last_error_code) == (Status.FAILED, "never again", "Unlucky")
    assert await bench.history(claim.job) == [(1, AttemptStatus.FAILED)]


async def test_a_rejected_job_fails_with_its_reason(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Rejected("payload_invalid", "month: missing"))
    job = await bench.job(claim.job)
    assert (job.status, job.last_error_code) == (Status.FAILED, "payload_invalid")


async def test_a_snooze_costs_no_attempt_and_yet_the_number_goes_up(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Snoozed(HOUR))
    job = await bench.job(claim.job)
    assert (job.status, job.due, job.attempt, job.free_attempts) == (Status.QUEUED, False, 1, 1)
    await bench.move_clock(HOUR)
    again = await bench.claim_one()
    assert (again.attempt, again.tries) == (2, 1)


async def test_a_snooze_leaves_no_error(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Snoozed(HOUR))
    assert (await bench.job(claim.job)).last_error is None
    assert await bench.history(claim.job) == [(1, AttemptStatus.SNOOZED)]


async def test_a_job_may_snooze_more_often_than_it_may_fail(bench: Bench) -> None:
    await bench.enqueue(max_attempts=1)
    for _ in range(5):
        await bench.finish(await bench.claim_one(), Snoozed(0 * SECOND))
    claim = await bench.claim_one()
    assert (claim.attempt, claim.tries, claim.max_attempts) == (6, 1, 1)


async def test_a_job_given_back_is_due_at_once_and_costs_nothing(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Released())
    assert (await bench.job(claim.job)).due
    assert await bench.history(claim.job) == [(1, AttemptStatus.GIVEN_BACK)]
    again = await bench.claim_one(await bench.join())
    assert (again.job, again.attempt, again.tries) == (claim.job, 2, 1)


async def test_a_canceled_run_ends_the_job(bench: Bench) -> None:
    claim = await bench.running()
    await bench.finish(claim, Canceled())
    assert await bench.status(claim.job) is Status.CANCELED
    assert await bench.history(claim.job) == [(1, AttemptStatus.CANCELED)]


async def test_a_success_after_errors_keeps_the_attempts_and_their_errors(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim, "the first time")
    await bench.move_clock(10 * SECOND)
    await bench.succeed(await bench.claim_one())
    first, second = await bench.jobs.attempts(claim.job)
    assert (first.status, first.error) == (AttemptStatus.FAILED, "the first time")
    assert (second.status, second.error) == (AttemptStatus.SUCCEEDED, None)


@pytest.mark.parametrize(
    "outcome", [Succeeded(), UNLUCKY, TimedOut(HOUR), Snoozed(HOUR), Released(), Canceled(), LeaseLost()], ids=repr
)
async def test_every_outcome_leaves_one_ended_attempt(bench: Bench, outcome: Outcome) -> None:
    claim = await bench.running()
    await bench.move_clock(HOUR)
    await bench.finish(claim, outcome)
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert (attempt.number, attempt.worker, attempt.started_at) == (1, claim.worker, claim.started_at)
    assert attempt.finished_at is not None
    assert HOUR <= attempt.finished_at - attempt.started_at < 2 * HOUR


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED, exit_code=0),
        Verdict(Status.FAILED, AttemptStatus.FAILED, error="exited with 3", error_code="exit", exit_code=3),
        Verdict(Status.QUEUED, AttemptStatus.FAILED, error="killed", error_code="signal", exit_code=-9),
    ],
    ids=lambda verdict: f"{verdict.status} with {verdict.exit_code}",
)
async def test_the_exit_code_of_a_command_is_kept_with_the_attempt(bench: Bench, verdict: Verdict) -> None:
    claim = await bench.running()
    assert await bench.store.finish([(claim, verdict)]) == frozenset()
    attempt = await bench.last_attempt(claim.job)
    assert (attempt.exit_code, attempt.error, attempt.error_code) == (
        verdict.exit_code,
        verdict.error,
        verdict.error_code,
    )


async def test_a_batch_writes_each_jobs_own_verdict(bench: Bench) -> None:
    await bench.enqueue_many(5)
    claims = await bench.claim(5)
    outcomes: list[Outcome] = [Succeeded('"first"'), UNLUCKY, Raised("x", "y", final=True), Canceled(), Released()]
    assert await bench.finish_all(list(zip(claims, outcomes, strict=True))) == frozenset()
    expected = [Status.SUCCEEDED, Status.QUEUED, Status.FAILED, Status.CANCELED, Status.QUEUED]
    assert [await bench.status(claim.job) for claim in claims] == expected
    assert (await bench.job(claims[0].job)).result == "first"


async def test_a_batch_of_jobs_in_different_attempts_is_written_whole(bench: Bench) -> None:
    old = await bench.running()
    await bench.finish(old, Released())
    await bench.enqueue_many(2)
    claims = await bench.claim(3)
    assert sorted(claim.attempt for claim in claims) == [1, 1, 2]
    assert await bench.finish_all([(claim, Succeeded()) for claim in claims]) == frozenset()
    assert {await bench.status(claim.job) for claim in claims} == {Status.SUCCEEDED}


async def test_a_batch_of_several_workers_is_written_whole(bench: Bench) -> None:
    claims = [await bench.running(), await bench.running(registration=await bench.join())]
    assert await bench.finish_all([(claim, Succeeded()) for claim in claims]) == frozenset()
    assert {await bench.status(claim.job) for claim in claims} == {Status.SUCCEEDED}


async def test_a_batch_of_several_tenants_is_written_whole(engine: EngineUnderTest) -> None:
    benches = [Bench(engine, tenant_id(name)) for name in NAMES]
    claims = [await bench.running() for bench in benches]
    assert not await benches[0].finish_all([(claim, Succeeded()) for claim in claims])
    statuses = [await bench.status(claim.job) for bench, claim in zip(benches, claims, strict=True)]
    assert set(statuses) == {Status.SUCCEEDED}


async def test_five_hundred_results_go_to_their_own_jobs(bench: Bench) -> None:
    await bench.enqueue_many(500)
    claims = await bench.claim(500)
    await bench.finish_all([(claim, Succeeded(f'"{claim.job}"')) for claim in claims])
    ended = await all_jobs(bench.jobs)
    assert len(ended) == 500
    assert all(job.result == job.id for job in ended)


async def test_a_stale_claim_in_a_batch_is_returned_and_the_rest_is_written(bench: Bench) -> None:
    stale, live = await bench.running(), await bench.running()
    await bench.succeed(stale)
    assert await bench.finish_all([(stale, UNLUCKY), (live, Succeeded())]) == {stale}
    assert [await bench.status(claim.job) for claim in (stale, live)] == [Status.SUCCEEDED] * 2


async def test_an_empty_finish_refuses_nothing(bench: Bench) -> None:
    nothing: list[tuple[Claim, Outcome]] = []
    assert await bench.finish_all(nothing) == frozenset()

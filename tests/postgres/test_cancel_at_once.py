"""Cancel against claim and finish: one of them comes first, the answer says which, and nothing is lost."""

import asyncio
from collections import Counter

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Gate, blocked, task
from tests.store.bench import Bench
from tests.tenant_kit import ACME, DAY

from leasehold.model.job import Claim, JobId
from leasehold.model.outcome import Canceled, Outcome, Raised, Released, Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import CancelAnswer, Store


async def finish(store: Store, claim: Claim, outcome: Outcome = Succeeded()) -> frozenset[Claim]:  # noqa: B008
    return await store.finish([(claim, decide(outcome, claim, jitter=0))])


async def final_states(observer: Raw, job: JobId) -> list[str]:
    """Every state that is written down for the job, in whichever table."""
    rows = await observer.fetch(
        """
        select status from leasehold.jobs where id = $1
        union all select status from leasehold.jobs_done where id = $1
        """,
        job,
    )
    return [str(row["status"]) for row in rows]


async def test_a_cancel_or_a_claim_at_once_gets_the_job(bench: Bench, observer: Raw, second_store: Store) -> None:
    registration = await bench.worker()
    for _ in range(60):
        job = await bench.enqueue()
        claimed, answers = await asyncio.gather(
            bench.store.claim(registration, 1), second_store.tenant(ACME).cancel([job])
        )
        if answers[job] is CancelAnswer.CANCELED:
            assert list(claimed.claims) == []
        else:
            assert answers[job] is CancelAnswer.REQUESTED
            (claim,) = claimed.claims
            assert (await bench.store.renew(registration, [claim], DAY)).cancels == {claim}
            await bench.finish(claim, Canceled())
        assert await final_states(observer, job) == ["canceled"]


async def test_a_cancel_beside_a_finish_answers_with_the_outcome(
    bench: Bench, observer: Raw, second_store: Store
) -> None:
    """Requested: it came before the end, and yet the handler had succeeded. Ended: it came after."""
    for _ in range(60):
        claim = await bench.running()
        refused, answers = await asyncio.gather(
            finish(bench.store, claim), second_store.tenant(ACME).cancel([claim.job])
        )
        assert not refused
        assert answers[claim.job] in (CancelAnswer.REQUESTED, CancelAnswer.ENDED)
        assert await final_states(observer, claim.job) == ["succeeded"]
        requested = (await bench.job(claim.job)).cancel_requested_at is not None
        assert requested == (answers[claim.job] is CancelAnswer.REQUESTED)


@pytest.mark.parametrize("outcome", [Raised("Unlucky", "no jitter"), Released()], ids=["retry", "release"])
async def test_a_cancel_wins_over_a_retry_at_once(
    bench: Bench, observer: Raw, second_store: Store, outcome: Outcome
) -> None:
    for _ in range(40):
        claim = await bench.running()
        refused, answers = await asyncio.gather(
            finish(bench.store, claim, outcome), second_store.tenant(ACME).cancel([claim.job])
        )
        assert not refused
        assert answers[claim.job] in (CancelAnswer.REQUESTED, CancelAnswer.CANCELED)
        assert await final_states(observer, claim.job) == ["canceled"]


async def test_cancels_claims_and_finishes_of_many_jobs_lose_nothing(
    bench: Bench, observer: Raw, second_store: Store
) -> None:
    registration = await bench.worker()
    jobs = await bench.enqueue_many(120)
    answers: dict[JobId, CancelAnswer] = {}
    refused: set[Claim] = set()

    async def work() -> None:
        while claimed := (await bench.store.claim(registration, 7)).claims:
            for claim in claimed:
                refused.update(await finish(bench.store, claim))

    async def cancel() -> None:
        for start in range(0, 120, 5):
            answers.update(await second_store.tenant(ACME).cancel(jobs[start : start + 5]))

    await asyncio.gather(work(), cancel())
    await work()
    states = {job: await final_states(observer, job) for job in jobs}
    assert not refused
    assert all(len(states[job]) == 1 for job in jobs)
    assert {job for job in jobs if states[job] == ["canceled"]} == {
        job for job, answer in answers.items() if answer is CancelAnswer.CANCELED
    }
    assert Counter(state for (state,) in states.values()).keys() <= {"succeeded", "canceled"}


# The same at chosen moments


async def test_a_cancel_that_waits_for_a_claim_to_commit_is_a_request(
    bench: Bench, observer: Raw, second_store: Store
) -> None:
    registration, job = await bench.worker(), await bench.enqueue()
    async with observer.transaction():
        await observer.execute(
            """
            update leasehold.jobs
            set status = 'running', ready = false, attempt = 1, worker_id = $1, started_at = leasehold.clock()
            """,
            registration.worker,
        )
        canceling = asyncio.create_task(second_store.tenant(ACME).cancel([job]))
        await blocked(observer)
    assert await canceling == {job: CancelAnswer.REQUESTED}


async def test_a_claim_that_began_before_a_cancel_committed_gets_nothing(
    bench: Bench, gate: Gate, second_store: Store
) -> None:
    job = await bench.enqueue()
    await gate.close("fleet/claim_next_tenants")
    async with task(bench.store.claim(await bench.worker(), 1)) as claiming:
        await gate.holds(1)
        assert await second_store.tenant(ACME).cancel([job]) == {job: CancelAnswer.CANCELED}
        await gate.open()
        assert list((await claiming).claims) == []
    assert await bench.status(job) is Status.CANCELED


async def test_a_cancel_begun_before_a_finish_finds_the_job_ended(
    bench: Bench, gate: Gate, second_store: Store
) -> None:
    claim = await bench.running()
    await gate.close("tenant/cancel")
    async with task(second_store.tenant(ACME).cancel([claim.job])) as canceling:
        await gate.holds(1)
        await bench.succeed(claim)
        await gate.open()
        assert await canceling == {claim.job: CancelAnswer.ENDED}
    assert await bench.status(claim.job) is Status.SUCCEEDED


# Batches that cross


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
@pytest.mark.parametrize("outcome", [Succeeded(), Released()], ids=["end", "release"])
async def test_a_batch_of_finishes_and_a_batch_of_cancels_do_not_deadlock(
    bench: Bench, observer: Raw, second_store: Store, outcome: Outcome, backwards: bool
) -> None:
    """Both wait in the middle, for a third one: if they lock from opposite ends, they then wait for each other."""
    claims = sorted([await bench.running() for _ in range(3)], key=lambda claim: claim.job, reverse=backwards)
    done = [(claim, decide(outcome, claim, jitter=0)) for claim in claims]
    async with observer.transaction():
        await observer.execute("select from leasehold.jobs where id = $1 for update", claims[1].job)
        both = asyncio.gather(
            bench.store.finish(done), second_store.tenant(ACME).cancel([claim.job for claim in claims])
        )
        await blocked(observer, 2)
    refused, _ = await both
    assert not refused


@pytest.mark.parametrize("outcome", [Succeeded(), Released()], ids=["end", "release"])
async def test_two_batches_that_finish_the_same_claims_do_not_deadlock(
    bench: Bench, observer: Raw, second_store: Store, outcome: Outcome
) -> None:
    """A worker that was thought dead comes back just as another ends its claims; neither knows the other's order."""
    claims = [await bench.running() for _ in range(3)]
    done = [(claim, decide(outcome, claim, jitter=0)) for claim in claims]
    async with observer.transaction():
        await observer.execute("select from leasehold.jobs where id = $1 for update", claims[1].job)
        both = asyncio.gather(bench.store.finish(done), second_store.finish(done[::-1]))
        await blocked(observer, 2)
    first, second = await both
    assert first ^ second == set(claims)

"""The fence: every write of an attempt needs its claim, and with an old or foreign one nothing can be written."""

import asyncio
from dataclasses import replace

import pytest
from tests.store.bench import BROUGHT_ID, LEASE, Bench, never_joined, new_id
from tests.store.bystander import BYSTANDER
from tests.store.fences import assert_it_can_write_nothing, finish_within
from tests.tenant_kit import DAY

from leasehold.model.outcome import Raised, Released, Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import FinishAnswer, Store


async def test_an_old_attempt_of_the_same_worker_writes_nothing(bench: Bench) -> None:
    old = await bench.running()
    await bench.finish(old, Released())
    new = await bench.claim_one()
    assert (new.job, new.worker, new.attempt) == (old.job, old.worker, 2)
    await assert_it_can_write_nothing(bench, old)


async def test_an_old_attempt_of_another_worker_writes_nothing(bench: Bench) -> None:
    old = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, Released())
    await bench.claim_one(await bench.join())
    await assert_it_can_write_nothing(bench, old)


async def test_another_worker_with_the_right_attempt_writes_nothing(bench: Bench) -> None:
    live, other = await bench.running(), await bench.join()
    await assert_it_can_write_nothing(bench, replace(live, worker=other.worker))


async def test_a_worker_that_never_was_writes_nothing(bench: Bench) -> None:
    await assert_it_can_write_nothing(bench, replace(await bench.running(), worker=never_joined()))


async def test_an_attempt_that_is_yet_to_come_writes_nothing(bench: Bench) -> None:
    await assert_it_can_write_nothing(bench, replace(await bench.running(), attempt=2))


@pytest.mark.parametrize("other", [-1, 1], ids=["an older batch", "a newer batch"])
async def test_a_claim_of_another_batch_writes_nothing(bench: Bench, other: int) -> None:
    live = await bench.running()
    await assert_it_can_write_nothing(bench, replace(live, batch=live.batch + other))


@pytest.mark.abilities("caller_transaction")
async def test_an_old_attempt_of_the_same_batch_writes_nothing(bench: Bench) -> None:
    """The attempt is asked for even where the batch alone would do."""
    old = await bench.running()
    await bench.finish(old, Released())
    await assert_it_can_write_nothing(bench, replace(await bench.claim_one(), attempt=old.attempt))


async def test_the_right_claim_under_another_tenants_name_writes_nothing(bench: Bench) -> None:
    await assert_it_can_write_nothing(bench, replace(await bench.running(), tenant=BYSTANDER))


async def test_a_claim_on_a_job_that_never_was_writes_nothing(bench: Bench) -> None:
    await assert_it_can_write_nothing(bench, replace(await bench.running(), job=new_id()))


async def test_a_claim_writes_nothing_while_its_job_waits_again(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    await assert_it_can_write_nothing(bench, claim)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER])
async def test_a_claim_writes_nothing_after_its_job_ended(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    used = replace(await bench.running(), job=job)
    (attempt,) = await bench.jobs.attempts(job)
    assert (used.worker, used.attempt) == (attempt.worker, attempt.number)
    await assert_it_can_write_nothing(bench, used)


async def test_a_claim_from_before_a_manual_retry_writes_nothing(bench: Bench) -> None:
    old = await bench.running()
    await bench.succeed(old)
    await bench.jobs.retry({old.job: 1})
    await assert_it_can_write_nothing(bench, old)
    await bench.claim_one()
    await assert_it_can_write_nothing(bench, old)


async def test_a_claim_on_a_pruned_job_writes_nothing_on_its_successor(bench: Bench) -> None:
    """A brought id that is used again begins at attempt 1 again."""
    old = await bench.running(id=BROUGHT_ID)
    await bench.succeed(old)
    await bench.move_clock(31 * DAY)
    await bench.store.prune(100)
    new = await bench.running(id=BROUGHT_ID)
    assert (new.job, new.attempt, new.worker) == (old.job, old.attempt, old.worker)
    await assert_it_can_write_nothing(bench, old)
    await bench.succeed(new)


async def test_two_claims_of_one_worker_never_share_a_batch(bench: Bench, stores: list[Store]) -> None:
    """Not even where the worker claims through several stores of its process."""
    registration = await bench.worker()
    await bench.enqueue_many(8)
    claims = [claim for store in stores * 2 for claim in (await store.claim(registration, 1)).claims]
    assert len({claim.batch for claim in claims}) == len(claims) == 8


async def test_the_store_names_a_claim_as_its_worker_knows_it(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    claim = await bench.running(registration=registration)
    assert list(await bench.store.held(registration)) == [claim]
    await bench.move_clock(2 * LEASE)
    assert list(await bench.store.evict(10)) == [claim]


@pytest.mark.abilities("caller_transaction")
async def test_a_live_claim_finishes_within_its_transaction(bench: Bench) -> None:
    """The control: a transaction that refused every claim would pass the tests above."""
    claim = await bench.running()
    assert await finish_within(bench.store, claim) is FinishAnswer.FINISHED
    assert (await bench.job(claim.job)).result == "within"


async def test_one_of_eight_finishes_at_once_is_written(bench: Bench, stores: list[Store]) -> None:
    claim = await bench.running()
    verdicts = [decide(Succeeded(f"{number}"), claim, jitter=0) for number in range(8)]
    answers = await asyncio.gather(
        *(store.finish([(claim, verdict)]) for store, verdict in zip(stores * 2, verdicts, strict=True))
    )
    assert sorted(len(answer) for answer in answers) == [0] + [1] * 7
    (winner,) = (number for number, answer in enumerate(answers) if not answer)
    assert (await bench.job(claim.job)).result == winner


async def test_the_holder_and_the_one_who_evicted_it_can_not_both_finish(bench: Bench, second_store: Store) -> None:
    for _ in range(5):
        holder = await bench.running(registration=await bench.join(lease=LEASE))
        await bench.move_clock(2 * LEASE)
        (orphan,) = await second_store.evict(10)
        answers = await asyncio.gather(
            bench.finish_all([(holder, Succeeded())]),
            second_store.finish([(orphan, decide(Raised("x", "y", final=True), orphan, jitter=0))]),
        )
        assert sorted(len(answer) for answer in answers) == [0, 1]
        assert await bench.status(holder.job) is (Status.FAILED if answers[0] else Status.SUCCEEDED)

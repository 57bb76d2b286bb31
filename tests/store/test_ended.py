"""Waiting for a result: it is returned as soon as the job is final, by whatever end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from tests.conftest import PATIENCE
from tests.store.bench import BROUGHT_ID, LEASE, UNKNOWN_ID, Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.duration import Duration
from leasehold.model.job import JobId, JobRecord
from leasehold.model.outcome import Canceled, LeaseLost, Released
from leasehold.model.status import Status
from leasehold.store import Store

Waiting = asyncio.Task[JobRecord | None]


@asynccontextmanager
async def waiting(bench: Bench, job: JobId, store: Store | None = None) -> AsyncIterator[Waiting]:
    """A caller that waits for an hour, and has begun to wait. Within the block, the test ends the job."""
    task = asyncio.create_task((store or bench.store).tenant(ACME).wait_until_final(job, HOUR))
    for _ in range(5):
        await bench.job(job)
    assert not task.done()
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            yield task
            await task
    finally:
        task.cancel()


def status_of(task: Waiting) -> Status | None:
    record = task.result()
    return record.status if record else None


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER])
async def test_a_job_that_has_ended_is_given_at_once(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    assert await bench.jobs.wait_until_final(job, timedelta()) == await bench.job(job)


async def test_a_waiting_caller_gets_the_job_with_its_result(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        await bench.succeed(claim, '"the result"')
    assert waiter.result() == await bench.job(claim.job)


async def test_a_caller_that_waits_before_the_run_gets_the_job(bench: Bench) -> None:
    job = await bench.enqueue()
    async with waiting(bench, job) as waiter:
        await bench.succeed(await bench.claim_one())
    assert status_of(waiter) is Status.SUCCEEDED


async def test_a_waiting_caller_in_another_process_is_woken(bench: Bench, second_store: Store) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job, second_store) as waiter:
        await bench.succeed(claim)
    assert status_of(waiter) is Status.SUCCEEDED


async def test_a_failure_that_is_final_wakes_too(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        await bench.fail(claim, final=True)
    assert status_of(waiter) is Status.FAILED


async def test_a_job_canceled_before_it_ran_wakes_too(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    async with waiting(bench, job) as waiter:
        await bench.jobs.cancel([job])
    assert status_of(waiter) is Status.CANCELED


async def test_a_run_that_was_canceled_wakes_too(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        await bench.jobs.cancel([claim.job])
        await bench.finish(claim, Canceled())
    assert status_of(waiter) is Status.CANCELED


async def test_a_run_that_ends_canceled_instead_of_waiting_again_wakes_too(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        await bench.jobs.cancel([claim.job])
        await bench.fail(claim)
    assert status_of(waiter) is Status.CANCELED


async def test_a_dead_workers_last_attempt_wakes_too(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE), max_attempts=1)
    async with waiting(bench, claim.job) as waiter:
        await bench.move_clock(2 * LEASE)
        (orphan,) = await bench.store.evict(10)
        await bench.finish(orphan, LeaseLost())
    assert status_of(waiter) is Status.DEAD_LETTER


async def test_a_job_that_waits_again_has_not_ended(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        await bench.finish(claim, Released())
        again = await bench.claim_one()
        assert not waiter.done()
        await bench.succeed(again, "2")
    assert waiter.result() == await bench.job(claim.job)


async def test_several_who_wait_for_one_job_are_all_woken(bench: Bench, second_store: Store) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as one, waiting(bench, claim.job, second_store) as two:
        await bench.succeed(claim)
    assert one.result() == two.result() == await bench.job(claim.job)


@pytest.mark.abilities("wakes")
async def test_a_waiting_caller_is_woken_not_polled(bench: Bench) -> None:
    """Twenty waits, one after the other. Woken, they take a second together; polled, that much or more each."""
    async with asyncio.timeout(15):
        for number in range(20):
            claim = await bench.running()
            job = await bench.enqueue(delay=HOUR) if number % 2 else claim.job
            async with waiting(bench, job):
                await bench.jobs.cancel([job])
                await bench.succeed(claim)


async def test_each_of_many_waits_gets_its_own_job(bench: Bench) -> None:
    jobs = await bench.enqueue_many(20)
    waits = [asyncio.create_task(bench.jobs.wait_until_final(job, HOUR)) for job in jobs]
    for claim in await bench.claim(20):
        await bench.succeed(claim, f'"{claim.job}"')
    async with asyncio.timeout(PATIENCE.total_seconds()):
        records = await asyncio.gather(*waits)
    assert [record and record.result for record in records] == jobs


async def test_a_wait_that_is_over_gives_nothing(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await bench.jobs.wait_until_final(job, timedelta(milliseconds=20)) is None
    assert await bench.status(job) is Status.QUEUED


async def test_a_wait_that_was_given_up_leaves_others_waiting(bench: Bench) -> None:
    claim = await bench.running()
    async with waiting(bench, claim.job) as waiter:
        assert await bench.jobs.wait_until_final(claim.job, timedelta(milliseconds=20)) is None
        await bench.succeed(claim)
    assert status_of(waiter) is Status.SUCCEEDED


async def test_an_unknown_job_is_not_waited_for(bench: Bench) -> None:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        assert await bench.jobs.wait_until_final(UNKNOWN_ID, HOUR) is None


async def test_another_tenants_job_is_not_waited_for(bench: Bench) -> None:
    job = await bench.enqueue()
    async with asyncio.timeout(PATIENCE.total_seconds()):
        assert await bench.store.tenant(OTHER).wait_until_final(job, HOUR) is None
        assert await bench.jobs.wait_until_final(BROUGHT_ID, HOUR) is None


@pytest.mark.parametrize("wait", ["0s", 0, timedelta()], ids=repr)
async def test_a_wait_is_any_duration(bench: Bench, wait: Duration) -> None:
    assert await bench.jobs.wait_until_final(await bench.enqueue(), wait) is None

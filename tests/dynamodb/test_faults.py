"""Throttles, lost replies, unsent requests and stale pages cost no attempt and lose nothing; (e): crashes neither."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.dynamodb.fault_injection import Crash, Fault, Faults, crash_after
from tests.dynamodb.raw_table import RawTable
from tests.store.bench import KEY, LEASE, Bench, EngineUnderTest, all_jobs, keyed
from tests.tenant_kit import DAY, HOUR

from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.job import Claim, JobId, NewJob
from leasehold.model.outcome import LeaseLost, Succeeded
from leasehold.model.status import Status
from leasehold.operations import usage
from leasehold.store import Store

WINDOW = Dedupe(KEY, Within(DAY))


@asynccontextmanager
async def opened(kit: DynamoTestKit, faults: Faults) -> AsyncIterator[Store]:
    store = await kit.open_with(faults.intercept)
    try:
        yield store
    finally:
        faults.script = lambda _request: None
        await store.close()


# ------------------------------------------------------------------------------------------------------ many faults


async def run_with_faults(kit: DynamoTestKit, bench: Bench, jobs: int, workers: int) -> Faults:
    """Enqueues and runs jobs by stores with faults. Each accepted finish is counted: there is one for each job."""
    faults = Faults(seed=jobs, throttles=0.05, lost_replies=0.02, unsent=0.01, stale_pages=0.05)
    async with opened(kit, faults) as store:
        producer = Bench(EngineUnderTest(store, kit.open, kit.clock().move))
        ids = [job for begin in range(0, jobs, 50) for job in await producer.enqueue_many(min(50, jobs - begin))]
        assert len(set(ids)) == jobs
        accepted: Counter[JobId] = Counter()

        async def finish(claim: Claim) -> None:
            for _ in range(2):  # the second is refused, even if the reply to the first was lost
                refused = await producer.finish_all([(claim, Succeeded())])
                accepted[claim.job] += claim not in refused

        async def work() -> None:
            registration = await producer.join(store=store)
            idle = 0
            while idle < 3:  # a stale page may show that nothing is left
                claims = await producer.claim(10, registration, store)
                idle = 0 if claims else idle + 1
                await asyncio.gather(*(finish(claim) for claim in claims))

        await asyncio.gather(*(work() for _ in range(workers)))
    assert accepted == dict.fromkeys(ids, 1)
    found = await all_jobs(bench.jobs, page=500)
    assert {(job.status, job.attempt) for job in found} == {(Status.SUCCEEDED, 1)}
    assert {job.id for job in found} == set(ids)
    assert (await usage.read(bench.store, bench.tenant)).total.attempts == jobs
    return faults


async def test_faults_cost_no_attempt_and_lose_no_job(kit: DynamoTestKit, bench: Bench) -> None:
    faults = await run_with_faults(kit, bench, jobs=100, workers=3)
    assert faults.count[Fault.THROTTLED] > 0
    assert faults.count[Fault.LOST_REPLY] > 0


@pytest.mark.faults
async def test_two_thousand_jobs_survive_many_faults(kit: DynamoTestKit, bench: Bench) -> None:
    faults = await run_with_faults(kit, bench, jobs=2000, workers=10)
    assert min(faults.count[fault] for fault in Fault) > 0


# ----------------------------------------------------------------------------------------------------- lost replies


async def lose_each_reply(kit: DynamoTestKit, act: Callable[[Bench], Awaitable[Any]]) -> Any:
    """Loses the first reply to each write of an act; the repetition of the write has to find out that it was done."""
    lost: set[str] = set()

    def lose_once(request: Any) -> Fault | None:
        text = f"{request.operation} {sorted(request.parameters)} {request.parameters.get('ClientRequestToken')}"
        if not request.is_write or text in lost:
            return None
        lost.add(text)
        return Fault.LOST_REPLY

    faults = Faults(script=lose_once)
    async with opened(kit, faults) as store:
        answer = await act(Bench(EngineUnderTest(store, kit.open, kit.clock().move)))
    assert faults.count[Fault.LOST_REPLY] > 0
    return answer


@pytest.mark.parametrize("dedupe", [None, keyed(), WINDOW], ids=["plain", "while active", "window"])
async def test_a_lost_reply_to_an_enqueue_makes_one_job(
    kit: DynamoTestKit, bench: Bench, dedupe: Dedupe | None
) -> None:
    job = await lose_each_reply(kit, lambda lossy: lossy.enqueue(dedupe=dedupe))
    assert [each.id for each in await all_jobs(bench.jobs)] == [job]


async def test_a_lost_reply_to_a_claim_is_a_claim(kit: DynamoTestKit, bench: Bench) -> None:
    job = await bench.enqueue()
    claim = await lose_each_reply(kit, lambda lossy: lossy.claim_one())
    assert (claim.job, claim.attempt) == (job, 1)
    assert (await bench.job(job)).attempt == 1


async def test_a_lost_reply_to_a_finish_is_not_a_refusal(kit: DynamoTestKit, bench: Bench) -> None:
    claim = await bench.running()
    refused = await lose_each_reply(kit, lambda lossy: lossy.finish_all([(claim, Succeeded())]))
    assert refused == frozenset()
    assert await bench.status(claim.job) is Status.SUCCEEDED


# ------------------------------------------------------------------------------------------------------ stale pages


async def test_a_stale_page_makes_no_second_claim(kit: DynamoTestKit, bench: Bench) -> None:
    faults = Faults()
    async with opened(kit, faults) as store:
        lagging = Bench(EngineUnderTest(store, kit.open, kit.clock().move))
        jobs = await bench.enqueue_many(5)
        registration = await lagging.join(store=store)
        first = await lagging.claim(5, registration, store)
        faults.script = lambda request: Fault.STALE_PAGE if request.index else None
        again = await lagging.claim(5, registration, store)
        assert faults.count[Fault.STALE_PAGE] > 0
    assert sorted(claim.job for claim in first) == sorted(jobs)
    assert again == []


async def test_a_stale_page_starts_no_job_that_was_canceled(kit: DynamoTestKit, bench: Bench) -> None:
    faults = Faults()
    async with opened(kit, faults) as store:
        job = await bench.enqueue()
        registration = await Bench(EngineUnderTest(store, kit.open, kit.clock().move)).join(store=store)
        await store.renew(registration, [], HOUR, look=True)  # the index is read while the job waits
        await bench.jobs.cancel([job])
        faults.script = lambda request: Fault.STALE_PAGE if request.index else None
        assert not (await store.claim(registration, 1)).claims
        assert faults.count[Fault.STALE_PAGE] > 0
    assert await bench.status(job) is Status.CANCELED


# (e)


async def assert_keys_and_jobs_belong_together(table: RawTable) -> None:
    """Each dedupe record points to a job, and each job with a key has its record."""
    items = await table.items()
    jobs = {(item["PK"], item["SK"]): item for item in items if item["SK"] == "job"}
    records = {(item["PK"], item["SK"]): item for item in items if "#scheduled-job#" in item["PK"]}
    for record in records.values():
        assert (record["job_pk"], record["job_sk"]) in jobs
    for job in jobs.values():
        if "hold_pk" in job:
            assert (job["hold_pk"], job["hold_sk"]) in records


@pytest.mark.parametrize("lost_reply", [False, True], ids=["before a write", "after a write"])
@pytest.mark.parametrize("dedupe", [keyed(), WINDOW], ids=["while active", "window"])
async def test_e_a_crash_between_writes_of_an_enqueue(
    kit: DynamoTestKit, bench: Bench, table: RawTable, dedupe: Dedupe, lost_reply: bool
) -> None:
    """Never a key without its job, and never a job without its key, wherever the process ends."""
    crashes = 0
    for writes in range(5):
        faults = Faults()
        async with opened(kit, faults) as store:
            with crash_after(faults, writes, lost_reply=lost_reply):
                try:
                    await Bench(EngineUnderTest(store, kit.open, kit.clock().move)).jobs.enqueue(
                        [_new_job(dedupe, number) for number in range(2)]
                    )
                except Crash:
                    crashes += 1
        await assert_keys_and_jobs_belong_together(table)
    assert crashes > 0
    placed = await bench.jobs.enqueue([_new_job(dedupe, number) for number in range(2)])
    assert {job.id for job in await all_jobs(bench.jobs)} == {each.id for each in placed}


def _new_job(dedupe: Dedupe, number: int) -> NewJob:
    return NewJob(definition="report", dedupe=Dedupe(f"{KEY}-{number}", dedupe.mode))


@pytest.mark.parametrize("lost_reply", [False, True], ids=["before a write", "after a write"])
async def test_a_crash_between_writes_of_a_run_loses_no_job(
    kit: DynamoTestKit, bench: Bench, lost_reply: bool
) -> None:
    """Claim and finish are cut at each of their writes. The job runs again, or has ended; none is stuck."""
    for writes in range(6):
        job = await bench.enqueue()
        faults = Faults()
        async with opened(kit, faults) as store:
            worker = Bench(EngineUnderTest(store, kit.open, kit.clock().move))
            registration = await worker.join(lease=LEASE, store=store)
            with crash_after(faults, writes, lost_reply=lost_reply):
                try:
                    for claim in await worker.claim(1, registration, store):
                        await worker.succeed(claim)
                except Crash:
                    pass
        await bench.move_clock(HOUR)
        lost = await bench.store.evict(10)
        await bench.finish_all([(claim, LeaseLost()) for claim in lost])
        await bench.move_clock(HOUR)
        if await bench.status(job) is not Status.SUCCEEDED:
            await bench.succeed(await bench.claim_one())
        assert await bench.status(job) is Status.SUCCEEDED

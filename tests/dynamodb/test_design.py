"""The corrected design of the scheduled job queue on DynamoDB: its tests (a) to (f); (e) stands in test_faults,
(g) in test_neutral_suite.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import cycle, islice
from time import monotonic
from typing import Any

import pytest
from tests.dynamodb.raw_table import RawTable
from tests.store.bench import LEASE, Bench, all_jobs, keyed
from tests.tenant_kit import DAY, HOUR, SECOND

from leasehold.engine import MovableClock
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.job import Claim, JobId
from leasehold.model.outcome import LeaseLost, Snoozed, Succeeded, decide
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Registration, Store

FIXED_WIDTH = "%Y-%m-%dT%H:%M:%S.%fZ"


def stamp(moment: datetime) -> str:
    return moment.strftime(FIXED_WIDTH)


async def take_over(bench: Bench) -> list[Claim]:
    """Claims of dead workers are ended as a worker does it, by `evict` and `finish`."""
    lost = await bench.store.evict(10)
    await bench.finish_all([(claim, LeaseLost()) for claim in lost])
    return list(lost)


# (a)


async def test_a_finished_jobs_hide_no_pending_one(bench: Bench) -> None:
    for _ in range(10):
        jobs = await bench.enqueue_many(100)
        claims = await bench.claim(100)
        assert {claim.job for claim in claims} == set(jobs)
        for claim in claims:
            await bench.succeed(claim)
    pending = await bench.enqueue()
    claimed = await bench.store.claim(await bench.worker(), 1)
    assert [claim.job for claim in claimed.claims] == [pending]


# (b)


async def test_b_a_failed_job_is_due_at_exactly_its_backoff(
    bench: Bench, clock: MovableClock, table: RawTable
) -> None:
    now = await clock.now()
    await clock.freeze(now)
    claim = await bench.running(dedupe=keyed())
    await bench.fail(claim)
    item = await table.job(claim.job)
    assert (item["status"], item["scheduled_for"]) == ("failed", stamp(now + 10 * SECOND))
    await bench.move_clock(10 * SECOND - timedelta(microseconds=1))
    assert await bench.claim() == []
    await bench.move_clock(timedelta(microseconds=1))
    again = await bench.claim_one()
    assert (again.job, again.attempt) == (claim.job, 2)


async def test_b_a_dedupe_record_points_to_its_retried_job(bench: Bench, table: RawTable) -> None:
    claim = await bench.running(dedupe=keyed())
    await bench.fail(claim)
    await bench.move_clock(10 * SECOND)
    await bench.claim_one()
    ((record, job),) = [(record, await pointed_to(table, record)) for record in await dedupe_records(table)]
    assert job is not None, record
    assert job["PK"].endswith(claim.job)


async def dedupe_records(table: RawTable) -> list[dict[str, Any]]:
    return [item for item in await table.items() if "#scheduled-job#" in item["PK"]]


async def pointed_to(table: RawTable, record: dict[str, Any]) -> dict[str, Any] | None:
    keys = record["job_pk"], record["job_sk"]
    found = [item for item in await table.items() if (item["PK"], item["SK"]) == keys]
    return found[0] if found else None


# (c)


async def test_c_a_killed_workers_job_is_taken_over(bench: Bench) -> None:
    dead = await bench.join(lease=LEASE)
    claim = await bench.running(registration=dead)
    await bench.move_clock(LEASE - SECOND)
    assert await take_over(bench) == []
    await bench.move_clock(HOUR)
    assert await take_over(bench) == [claim]
    await bench.move_clock(HOUR)
    again = await bench.claim_one()
    assert (again.job, again.attempt) == (claim.job, claim.attempt + 1)
    assert await bench.statuses(claim.job) == [AttemptStatus.CRASHED, AttemptStatus.RUNNING]


# (d)


# The emulator answers one request at a time: more would wait in it for longer than a client waits. So few workers act
# at the same moment, and their requests take turns. Its queries take time for each waiting job: jobs come in waves.
ACTING, AT_ONCE, WAVE = 6, 8, 1000


async def run_all(kit: DynamoTestKit, bench: Bench, workers: int, jobs: int) -> None:
    """Workers claim and finish until no job is left. Each claim is noted, to look for repeated attempts."""
    acting, places, claimed = asyncio.Semaphore(ACTING), asyncio.Semaphore(AT_ONCE), list[tuple[JobId, int]]()

    async def take_turns(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        async with places:
            return await send(operation, parameters)

    async def work(store: Store, registration: Registration) -> None:
        claims = None
        while claims is None or claims:
            async with acting:
                claims = await bench.claim(25, registration, store)
                claimed.extend((claim.job, claim.attempt) for claim in claims)
            async with acting:
                assert not await store.finish([(claim, decide(Succeeded(), claim, jitter=0)) for claim in claims])

    stores = [await kit.open_with(take_turns) for _ in range(min(workers, 5))]
    fleet = [(store, await bench.join("report", store=store)) for store in islice(cycle(stores), workers)]
    for wave in range(0, jobs, WAVE):
        for begin in range(wave, min(jobs, wave + WAVE), 100):
            await bench.enqueue_many(min(100, jobs - begin))
        await asyncio.gather(*(work(store, registration) for store, registration in fleet))
    for store in stores:
        await store.close()
    assert len(claimed) == len(set(claimed)) == jobs
    found = await all_jobs(bench.jobs, page=500)
    assert {(job.status, job.attempt) for job in found} == {(Status.SUCCEEDED, 1)}
    assert len(found) == jobs


async def test_d_many_workers_run_each_job_once(kit: DynamoTestKit, bench: Bench) -> None:
    await run_all(kit, bench, workers=10, jobs=300)


@pytest.mark.faults
async def test_d_fifty_workers_run_ten_thousand_jobs_once(kit: DynamoTestKit, bench: Bench) -> None:
    began = monotonic()
    await run_all(kit, bench, workers=50, jobs=10_000)
    sent = Counter(kit.statements())
    sys.stdout.write(f"\n50 workers, 10,000 jobs: {monotonic() - began:.0f} s, requests: {dict(sent)}\n")


# (f)


async def assert_keys_agree(table: RawTable) -> None:
    """The time in the index key is `scheduled_for` while a job waits, and the end of the lock while it runs."""
    for item in await table.items():
        if item["SK"] != "job":
            continue
        job = item["PK"].rpartition("#")[2]
        match item["status"]:
            case "pending" | "failed":
                assert item["due_sk"] == f"scheduled#{item['scheduled_for']}#{job}"
            case "in_progress":
                assert item["due_sk"] == f"scheduled#{item['lock_expires_at']}#{job}"
            case "completed" | "cancelled" | "dead_letter":
                assert not {"due_pk", "due_sk"} & set(item)
            case other:
                raise AssertionError(f"{other} is not a word of the contract")


async def test_f_keys_agree_with_times_after_each_operation(bench: Bench, table: RawTable) -> None:
    registration = await bench.join(lease=LEASE)

    async def claim() -> Claim:
        return await bench.claim_one(registration)

    await bench.enqueue()
    await assert_keys_agree(table)
    first = await claim()
    await assert_keys_agree(table)
    await bench.store.renew(registration, [first], HOUR)
    await assert_keys_agree(table)
    await bench.fail(first)
    await assert_keys_agree(table)
    await bench.move_clock(10 * SECOND)
    await bench.finish(await claim(), Snoozed(HOUR))
    await assert_keys_agree(table)
    await bench.jobs.reschedule([first.job], delay=timedelta())
    await assert_keys_agree(table)
    await bench.succeed(await claim())
    await assert_keys_agree(table)
    await bench.jobs.retry({first.job: (await bench.job(first.job)).attempt})
    await assert_keys_agree(table)
    await bench.jobs.cancel([first.job])
    await assert_keys_agree(table)
    dead = await bench.running(registration=registration, max_attempts=1)
    await bench.move_clock(DAY)
    await take_over(bench)
    await assert_keys_agree(table)
    assert (await table.job(dead.job))["status"] == "dead_letter"

"""The ten weaknesses of the first specification of this queue, each with the test that would have caught it.

1 is test_design (a), 3 is (b) and (f), 5 is (e) in test_faults; the others stand here.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta

from tests.dynamodb.raw_table import RawTable
from tests.dynamodb.test_design import stamp, take_over
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import DAY, HOUR, OTHER, SECOND

from leasehold.engine import MovableClock
from leasehold.engines.dynamodb.keys import timestamp
from leasehold.engines.dynamodb.urls import read_url
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.outcome import Succeeded
from leasehold.model.status import Status
from leasehold.store import Filter


async def test_2_a_failed_job_and_an_expired_one_are_due_again(bench: Bench) -> None:
    failed = await bench.running()
    await bench.fail(failed)
    crashed = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(HOUR)
    await take_over(bench)
    await bench.move_clock(HOUR)
    assert sorted(await bench.claimed_jobs()) == sorted([failed.job, crashed.job])


async def test_4_due_jobs_of_one_definition_are_in_several_partitions(bench: Bench, table: RawTable) -> None:
    await bench.enqueue_many(40)
    partitions = Counter(item["due_pk"] for item in await table.items() if item["SK"] == "job")
    assert len(partitions) == 4
    assert max(partitions.values()) < 30


async def test_6_a_stale_worker_can_finish_nothing(bench: Bench) -> None:
    stale = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(HOUR)
    await take_over(bench)
    await bench.move_clock(HOUR)
    again = await bench.claim_one()
    assert await bench.finish_all([(stale, Succeeded())]) == {stale}
    await bench.succeed(again)
    assert await bench.finish_all([(stale, Succeeded())]) == {stale}


async def test_7_a_job_runs_as_often_as_its_attempts_allow(bench: Bench) -> None:
    await bench.store.sync_definitions([Definition("report", max_attempts=5, backoff=Steps(1))])
    job, runs = await bench.enqueue(), 0
    while claims := await bench.claim(1):
        runs += 1
        await bench.fail(claims[0])
        await bench.move_clock(10 * SECOND)
    assert runs == 5
    assert await bench.status(job) is Status.DEAD_LETTER


async def test_8_a_job_that_is_due_exactly_now_is_claimed(bench: Bench, clock: MovableClock) -> None:
    now = await clock.now()
    await clock.freeze(now)
    job = await bench.enqueue(at=now + SECOND)
    await bench.move_clock(SECOND)
    assert await bench.claimed_jobs() == [job]


async def test_8_only_jobs_are_in_their_partitions(bench: Bench, table: RawTable, clock: MovableClock) -> None:
    """Definitions, workers and dedupe records are items, too, and none of them is returned by the query."""
    await bench.worker()
    jobs = await bench.enqueue_many(8)
    now = stamp(await clock.now())
    found = [item for shard in range(4) for item in await table.query_due(now, f"job#report#{shard}")]
    assert sorted(item["PK"].rpartition("#")[2] for item in found) == sorted(jobs)


def test_8_times_have_one_width_and_sort_as_moments_do() -> None:
    whole = datetime(2027, 1, 1, tzinfo=UTC)
    moments = [whole, whole + timedelta(microseconds=1), whole + SECOND, whole + DAY]
    texts = [timestamp(moment) for moment in moments]
    assert texts == sorted(texts)
    assert {len(text) for text in texts} == {27}


async def test_9_a_lease_is_lost_later_than_clocks_differ(bench: Bench, database_url: str) -> None:
    """A worker whose clock is ahead by less than the allowance takes over nothing."""
    skew = read_url(database_url).skew
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(LEASE + skew / 2)
    assert await take_over(bench) == []
    await bench.move_clock(skew)
    assert await take_over(bench) == [claim]


async def test_10_jobs_are_listed_by_tenant_and_status(bench: Bench) -> None:
    done, waiting = await bench.succeeded(), await bench.enqueue()
    for status, job in ((Status.SUCCEEDED, done), (Status.QUEUED, waiting)):
        page = await bench.jobs.find(Filter(statuses=(status,)), None, 10)
        assert [each.id for each in page.jobs] == [job]
    assert (await bench.store.tenant(OTHER).find(Filter(), None, 10)).jobs == []

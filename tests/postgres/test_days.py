"""A delay of a day is 24 hours, also where the database's clocks change in between."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.conftest import Clock
from tests.postgres.race_tools import Connections
from tests.store.bench import REPORT, Bench, EngineUnderTest, keyed
from tests.tenant_kit import ACME, DAY

from leasehold.engines import engine_for
from leasehold.model.backoff import Steps
from leasehold.model.job import JobId, NewJob
from leasehold.model.outcome import Snoozed

# In Berlin a day of 23 hours begins at 12:00 of the first, one of 25 hours at 12:00 of the second.
NOONS = [datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC)]
TO_BERLIN = """do $$ begin
    execute format('alter database %I set timezone to %L', current_database(), 'Europe/Berlin');
end $$"""
DELAYED = NewJob(definition="report", delay=DAY)


@pytest.fixture(params=NOONS, ids=["short", "long"])
async def noon(request: pytest.FixtureRequest, clock: Clock) -> datetime:
    moment: datetime = request.param
    await clock.freeze(moment)
    return moment


@pytest.fixture
async def bench(database_url: str, connections: Connections, clock: Clock, noon: datetime) -> AsyncIterator[Bench]:
    await (await connections.open()).execute(TO_BERLIN)
    store = await engine_for(database_url).open()
    await store.sync_definitions([replace(REPORT, backoff=Steps(DAY.total_seconds()))])
    yield Bench(EngineUnderTest(store, engine_for(database_url).open, clock.move))
    await store.close()


async def hours(bench: Bench, job: JobId, noon: datetime) -> float:
    return ((await bench.job(job)).scheduled_for - noon) / timedelta(hours=1)


async def test_these_are_days_of_other_lengths_there(bench: Bench, noon: datetime, connections: Connections) -> None:
    connection = await connections.open()
    a_day_later = await connection.fetchval("select $1::timestamptz + interval '1 day'", noon)
    assert a_day_later - noon == timedelta(hours=23 if noon.month == 3 else 25)


@pytest.mark.parametrize("count", [1, 3])
async def test_plain_jobs(bench: Bench, noon: datetime, count: int) -> None:
    for placed in await bench.jobs.enqueue([DELAYED] * count):
        assert await hours(bench, placed.id, noon) == 24


async def test_other_jobs(bench: Bench, noon: datetime) -> None:
    for placed in await bench.jobs.enqueue([replace(DELAYED, dedupe=keyed()), replace(DELAYED, priority=1)]):
        assert await hours(bench, placed.id, noon) == 24


async def test_jobs_in_one_of_many_chunks(bench: Bench, noon: datetime) -> None:
    async with bench.jobs.bulk_transaction() as bulk:
        (placed,) = await bulk.enqueue([DELAYED])
    assert await hours(bench, placed.id, noon) == 24


async def test_a_job_in_the_transaction_of_its_caller(bench: Bench, noon: datetime, connections: Connections) -> None:
    connection = await connections.open()
    async with connection.transaction():
        (placed,) = await bench.store.tenant(ACME).enqueue([DELAYED], within=connection)
    assert await hours(bench, placed.id, noon) == 24


async def test_a_job_that_is_moved(bench: Bench, noon: datetime) -> None:
    job = await bench.enqueue()
    await bench.jobs.reschedule([job], delay=DAY)
    assert await hours(bench, job, noon) == 24


async def test_a_snooze_and_a_backoff(bench: Bench, noon: datetime) -> None:
    snoozed, failed = await bench.running(), await bench.running()
    await bench.finish(snoozed, Snoozed(DAY))
    await bench.fail(failed)
    assert await hours(bench, snoozed.job, noon) == 24
    assert await hours(bench, failed.job, noon) == 24


async def test_a_worker_that_sleeps_until_then(bench: Bench, noon: datetime, connections: Connections) -> None:
    await bench.enqueue(delay=DAY + timedelta(hours=1))
    await bench.store.prepare_to_sleep(await bench.worker())
    wakes_at = await (await connections.open()).fetchval("select max(wakes_at) from leasehold.sleepers")
    assert wakes_at - noon == DAY + timedelta(hours=1)

"""Usage in Postgres: late commits, copies of a database, days of other lengths, and rows that are read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from tests.conftest import Clock, Raw, eventually
from tests.postgres.plan_database import BIG, DEEP
from tests.postgres.race_tools import Connections
from tests.postgres.test_days import TO_BERLIN
from tests.postgres.test_roll_up_plan import DEFINED, ENDED, ENDED_BEFORE, FACTOR, SLACK
from tests.store.bench import REPORT, Bench, EngineUnderTest
from tests.store.test_usage import MINUTE, add_up
from tests.tenant_kit import ACME, HOUR

from leasehold.engines import engine_for
from leasehold.model.definition import Retention
from leasehold.operations import usage

ADDED = "select coalesce(sum(attempts), 0) from leasehold.usage_hours where tenant_id = 'acme'"
USED = "select * from leasehold.usage_between(now() - interval '2 minutes', now() + interval '1 hour', $1)"

FINISH = """
    with gone as (delete from leasehold.jobs where id = $1 returning *)
    insert into leasehold.jobs_done (
        id, scheduled_for, queued_at, started_at, finished_at, prune_after, version, attempt, max_attempts, forgiven,
        priority, dedupe_held, tenant_id, definition, status, payload, source, worker_id)
    select id, scheduled_for, queued_at, started_at, now, now + interval '2592000 seconds', version, attempt,
           max_attempts, forgiven, priority, false, tenant_id, definition, 'succeeded', payload, source, worker_id
    from gone cross join leasehold.clock() as now
"""


async def attempts(bench: Bench) -> int:
    return (await usage.read(bench.store, ACME)).total.attempts


async def until_added(bench: Bench, observer: Raw, count: int) -> None:
    """Adds up until all is added: a transaction of another test of this server may have to end first."""

    async def is_added() -> bool:
        await add_up(bench)
        return bool(await observer.fetchval(ADDED) == count)

    await eventually(is_added, what=f"{count} attempts in the hours")


async def test_a_finish_that_commits_late_is_not_missed(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    """The finish has its time, and its transaction stays open while others are added up."""
    claim = await bench.running()
    late = await connections.open()
    transaction = late.transaction()
    await transaction.start()
    await late.execute(FINISH, claim.job)
    await bench.succeeded()
    await add_up(bench)
    await add_up(bench)
    assert await observer.fetchval(ADDED) == 0
    assert await attempts(bench) == 1
    await transaction.commit()
    assert await attempts(bench) == 2
    await until_added(bench, observer, 2)
    assert await attempts(bench) == 2


async def test_a_copy_on_another_server_goes_on(bench: Bench, observer: Raw) -> None:
    """The note names a transaction that this server has not had yet."""
    await bench.succeeded()
    await observer.execute("update leasehold.series_progress set noted_by = '18446744073709551000'::xid8")
    await until_added(bench, observer, 1)


async def test_a_prune_waits_for_no_roll_up(bench: Bench, connections: Connections, observer: Raw) -> None:
    """A prune of jobs that are added up locks nothing; one of younger jobs keeps adding up away from them."""
    await bench.store.sync_definitions([replace(REPORT, retention=Retention(succeeded=timedelta()))])
    await bench.succeeded()
    await until_added(bench, observer, 1)
    holder = await connections.open()
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("select from leasehold.series_progress for update")
    assert await bench.store.prune(10) == 1
    await transaction.rollback()
    assert await attempts(bench) == 1


async def test_details_that_make_no_sense_are_unknown_time(bench: Bench, observer: Raw) -> None:
    for cpu in ("1e300", "-1", '"7"', "null", "1e9", "0.25"):
        found = await observer.fetchval(
            "select leasehold.cpu_time(jsonb_build_object('cpu_seconds', $1::jsonb))", cpu
        )
        assert found == {"1e9": timedelta(seconds=10**9), "0.25": timedelta(seconds=0.25)}.get(cpu)


@pytest.mark.parametrize("month", [3, 10])
async def test_usage_is_exact_where_clocks_change(
    database_url: str, connections: Connections, clock: Clock, month: int
) -> None:
    """A retention of 30 days that begins before the change is as long as any other: jobs are found by it."""
    await (await connections.open()).execute(TO_BERLIN)
    await clock.freeze(datetime(2027, month, 20, 12, tzinfo=UTC))
    store = await engine_for(database_url).open()
    try:
        await store.sync_definitions([REPORT])
        bench = Bench(EngineUnderTest(store, engine_for(database_url).open, clock.move))
        await bench.succeeded()
        assert await attempts(bench) == 1
    finally:
        await store.close()


async def buffers(observer: Raw, tenant: str | None) -> int:
    for _ in range(2):
        shown = await observer.fetchval(f"explain (analyze, buffers, format json) {USED}", tenant)
    plan = orjson.loads(shown)[0]["Plan"]
    assert plan["Actual Rows"] >= 1
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("tenant", [None, BIG])
async def test_usage_reads_only_the_jobs_of_its_time(observer: Raw, tenant: str | None) -> None:
    await observer.execute(DEFINED)
    await observer.execute(ENDED, 50, MINUTE, BIG, DEEP)
    await observer.execute("vacuum analyze")
    before = await buffers(observer, tenant)
    await observer.execute(ENDED, ENDED_BEFORE, 24 * HOUR, BIG, DEEP)
    await observer.execute("vacuum analyze")
    assert await buffers(observer, tenant) <= FACTOR * before + SLACK

"""A measurement of the fleet reads few rows, however many jobs have ended; a slow one is repeated less often."""

from datetime import timedelta

import orjson
from tests.conftest import Raw
from tests.postgres.plan_database import BIG, DEEP
from tests.postgres.test_roll_up_plan import DEFINED, ENDED, WAITING

OLD = "update leasehold.fleet_snapshot set taken_at = 'epoch', took = '0'"
READ = "select figures is not null and age < 1 from leasehold.read_fleet(interval '15 seconds')"
FEW, MANY = 100, 20_000
FACTOR, SLACK = 2, 300


async def buffers(observer: Raw) -> int:
    """Returns the buffers of a measurement. The first run reads the catalog, too."""
    for _ in range(2):
        await observer.execute(OLD)
        shown = await observer.fetchval(f"explain (analyze, buffers, format json) {READ}")
    plan = orjson.loads(shown)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_ended_jobs_don_t_make_a_measurement_longer(observer: Raw) -> None:
    await observer.execute(DEFINED)
    await observer.execute(WAITING, FEW, BIG, DEEP)
    await observer.execute(ENDED, FEW, timedelta(hours=1), BIG, DEEP)
    few = await buffers(observer)
    await observer.execute(ENDED, MANY, timedelta(hours=1), BIG, DEEP)
    await observer.execute("vacuum analyze leasehold.jobs_done")
    assert await buffers(observer) < FACTOR * few + SLACK


async def test_a_slow_measurement_is_repeated_less_often(observer: Raw) -> None:
    assert await observer.fetchval(READ)
    taken = "select taken_at from leasehold.fleet_snapshot"
    await observer.execute(
        "update leasehold.fleet_snapshot set took = interval '1 second', taken_at = taken_at - interval '99 seconds'"
    )
    before = await observer.fetchval(taken)
    await observer.fetchval(READ)
    assert await observer.fetchval(taken) == before
    await observer.execute("update leasehold.fleet_snapshot set taken_at = taken_at - interval '2 seconds'")
    await observer.fetchval(READ)
    assert await observer.fetchval(taken) > before

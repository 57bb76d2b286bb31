"""Large states of Leasehold's tables, made by SQL within seconds, and the snapshot that somebody holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import asyncpg

from bench.children import Crew
from bench.job import TENANTS
from bench.stage import Place, Stage, until
from bench.systems import CannotMeasure

# Text that only claims contain.
CLAIM = "attempt = j.attempt + "
WORKERS = 20
WAKES_NOBODY = """
    create or replace function leasehold.wake(definitions text[], tenants text[], dues timestamptz[])
    returns integer language sql as 'select 0';
    create or replace function leasehold.wake_for_one(definition text, tenant text, due timestamptz)
    returns integer language sql as 'select 0';
    create or replace function leasehold.nobody_sleeps(definition text)
    returns boolean language sql as 'select true'
"""


@cache
def query(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()


async def queue(
    stage: Stage, place: Place, jobs: int, tenants: int = TENANTS, first: int = 0, definitions: int = 1
) -> None:
    await _made_ready(place)
    await place.observer.execute(query("tenants"), first + tenants)
    await place.observer.execute(query("queued"), jobs, tenants, first, definitions)
    await stage.settle(place)


async def waiting(place: Place) -> int:
    """Counts the ready jobs; jobs that an ended worker had only claimed become ready when its lease ends."""
    return int(await place.observer.fetchval("select count(*) from leasehold.jobs where ready"))


async def finished(stage: Stage, place: Place, jobs: int) -> None:
    await _made_ready(place)
    await place.observer.execute(query("finished"), jobs, TENANTS)
    await stage.settle(place)


async def many_tenants(stage: Stage, place: Place, jobs: int, tenants: int, definitions: int) -> None:
    """Fills the tables as those of a busy installation are: jobs in all states, workers, and figures for charts."""
    await _made_ready(place)
    await place.observer.execute(query("tenants"), tenants)
    await place.observer.execute(query("many_tenants"), jobs, tenants, definitions)
    await place.observer.execute(query("live_workers"), WORKERS, definitions)
    await place.observer.execute(query("series"), tenants)
    await stage.settle(place)


async def sample_jobs(place: Place, tenant: str | None, tenants: int) -> dict[str, str]:
    """Returns ids and times of jobs that were picked by chance: of the tenant, or of any small one."""
    for _ in range(100):
        if found := await place.observer.fetchrow(query("sample_jobs"), tenant, tenants - 1):
            return dict(found)
    raise CannotMeasure(f"no jobs to ask for: {tenant}")


async def without_wakes(place: Place) -> None:
    await place.observer.execute(WAKES_NOBODY)


async def worker_joined(stage: Stage, place: Place, crew: Crew) -> None:
    async def joined() -> bool:
        crew.must_live()
        return bool(await place.observer.fetchval("select exists (select from leasehold.workers)"))

    await until(joined, stage.sizes.limit, "a worker's joining")


@asynccontextmanager
async def old_snapshot(place: Place) -> AsyncIterator[None]:
    """Somebody looks at the database as it is now, and goes on looking: no dead row can be cleared away."""
    somebody = await asyncpg.connect(place.url)
    try:
        async with somebody.transaction(isolation="repeatable_read", readonly=True):
            await somebody.fetchval("select count(*) from leasehold.definitions")
            yield
    finally:
        await somebody.close()


async def _made_ready(place: Place) -> None:
    if not await place.observer.fetchval("select to_regproc('pg_temp.uuid7')"):
        await place.observer.execute(query("uuid7"))

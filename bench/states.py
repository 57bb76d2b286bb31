"""Large states of Leasehold's tables, made by SQL within seconds, and the snapshot that somebody holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import asyncpg

from bench.children import Crew
from bench.job import TENANTS
from bench.stage import Place, Stage, until

# Text that only claims contain.
CLAIM = "attempt = j.attempt + "
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

"""Nothing whose enqueue was acknowledged is lost, however often the database crashes while producers go on."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
from tests.conftest import eventually
from tests.postgres.crashes import crash, own_server
from tests.store.bench import REPORT, new_id
from tests.tenant_kit import ACME

from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.errors import Unreachable
from leasehold.model.job import JobId, NewJob
from leasehold.store import Store

pytestmark = pytest.mark.faults

CRASHES = 12
PRODUCERS = 4
BETWEEN_CRASHES = 100
"""So many jobs are acknowledged before the next crash."""
DOES_NOT_INSIST = (
    "create or replace function leasehold.force_sync_commit() returns text language sql as 'select null::text'"
)
NOT_DURABLE = {"synchronous_commit": "off", "wal_writer_delay": "10s"}


class Producers:
    """Producers enqueue without a pause, and repeat a call without an answer with the same id."""

    def __init__(self, store: Store) -> None:
        self._jobs = store.tenant(ACME)
        self.acknowledged: list[JobId] = []
        self.unanswered = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._produce()) for _ in range(PRODUCERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if not isinstance(end, asyncio.CancelledError):
                raise AssertionError(f"a producer gave up: {end!r}")

    async def have_enqueued(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.acknowledged) >= count

        await eventually(enough, what=f"{count} acknowledged jobs")

    async def _produce(self) -> None:
        while True:
            job = NewJob(definition="report", id=new_id())
            while not await self._acknowledged(job):
                self.unanswered += 1
                await asyncio.sleep(0.01)

    async def _acknowledged(self, job: NewJob) -> bool:
        with suppress(Unreachable):
            (placed,) = await self._jobs.enqueue([job])
            self.acknowledged.append(placed.id)
            return True
        return False


async def lost_over_crashes(settings: Mapping[str, str], *, insist: bool = True) -> set[JobId]:
    """Returns the jobs that were acknowledged and don't exist after the last crash."""
    with own_server(settings) as server:
        await migrate(server.url, schema="leasehold")
        store = await engine_for(server.url).open()
        try:
            await store.sync_definitions([REPORT])
            if not insist:
                await ask(server.url, DOES_NOT_INSIST)
            await ask(server.url, "checkpoint")  # without durable commits the schema itself would be lost
            producers = Producers(store)
            async with producers.at_work():
                for _ in range(CRASHES):
                    await producers.have_enqueued(len(producers.acknowledged) + BETWEEN_CRASHES)
                    await crash(server)
        finally:
            await store.close()
        there = {JobId(str(row["id"])) for row in await ask(server.url, "select id from leasehold.jobs")}
    lost = set(producers.acknowledged) - there
    durable = settings.get("synchronous_commit", "on")
    sys.stdout.write(
        f"\n{CRASHES} crashes, synchronous_commit {durable}, insisting {insist}: "
        f"{len(producers.acknowledged)} enqueues acknowledged, {producers.unanswered} calls unanswered, "
        f"{len(lost)} jobs lost\n"
    )
    assert producers.unanswered, "no crash met a call under way: this run has shown nothing"
    return lost


async def ask(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def test_no_acknowledged_job_is_lost_over_twelve_crashes() -> None:
    assert await lost_over_crashes({}) == set()


async def test_no_job_is_lost_although_the_database_has_async_commits() -> None:
    assert await lost_over_crashes(NOT_DURABLE) == set()


async def test_with_async_commits_and_no_forced_sync_jobs_are_lost() -> None:
    """The control: the tests above can fail."""
    assert await lost_over_crashes(NOT_DURABLE, insist=False)

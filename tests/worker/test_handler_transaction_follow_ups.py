"""Jobs and rows that follow from a job appear with its finish, or not at all."""

from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import PATIENCE, Raw, eventually
from tests.worker.effects import effects, write
from tests.worker.shop import Shop

from leasehold import Leasehold
from leasehold.errors import JobFailed
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob, job_id
from leasehold.worker import Handlers, Job

pytestmark = pytest.mark.usefixtures("effects_table")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_follow_up_appears_with_the_finish_or_not_at_all(shop: Shop, fails: bool) -> None:
    ran: list[str] = []
    handlers = Handlers()

    @handlers.add(Definition("first", max_attempts=1))
    async def first(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await shop.jobs.enqueue([NewJob(definition="second")], within=connection)
            assert (
                await shop.observer.fetchval("select count(*) from leasehold.jobs where definition = 'second'") == 0
            )
            await write(connection, job)
        if fails:
            raise ConnectionError

    @handlers.add(Definition("second"))
    async def second(job: Job, payload: Any) -> None:
        assert await effects(shop) != []
        ran.append(job.id)

    async with shop.working(handlers):
        job = await shop.enqueue("first")
        await shop.ended(job)
        if not fails:

            async def followed() -> bool:
                return bool(ran)

            await eventually(followed, what="the follow-up")
        else:
            assert await shop.observer.fetchval("select count(*) from leasehold.jobs") == 0
    assert len(ran) == (0 if fails else 1)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_follow_up_job_appears_with_the_finish_or_not_at_all(
    database_url: str, observer: Raw, fails: bool
) -> None:
    app = Leasehold(database_url)
    waiting = "select count(*) from leasehold.jobs where definition = 'second'"
    seen: list[int] = []

    @app.job
    async def second(job: Job) -> str:
        return job.tenant

    @app.job(max_attempts=1)
    async def first(job: Job) -> str:
        async with job.transaction() as connection:
            follow_up = await app.tenant(job.tenant).within(connection).aenqueue(second)
            await write(connection, job)
        seen.append(await observer.fetchval(waiting))
        if fails:
            raise ConnectionError
        return follow_up.id

    async with app.open(worker=True):
        placed = await app.tenant("acme").aenqueue(first)
        if fails:
            with pytest.raises(JobFailed):
                await placed.aresult(timeout=PATIENCE)
        else:
            follow_up = replace(placed, id=job_id(await placed.aresult(timeout=PATIENCE)), definition="second")
            assert await follow_up.aresult(timeout=PATIENCE) == "acme"
    written = await observer.fetchval("select count(*) from effects")
    assert (seen, written, await observer.fetchval(waiting)) == ([0], 0 if fails else 1, 0)

"""A handler, a tenant handle, the number of stored jobs, and the end of a job."""

from typing import Any

import asyncpg
from tests.conftest import PATIENCE

from leasehold import (
    Enqueued,
    Job,
    JobRecord,
    Leasehold,
)


def count_size(job: Job, provider_id: str, path: str = "/", extra: Any = None) -> int:
    return len(path)


async def rows(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        jobs = "select (select count(*) from leasehold.jobs) + (select count(*) from leasehold.jobs_done)"
        return int(await connection.fetchval(jobs))
    finally:
        await connection.close()


def handle(app: Leasehold) -> Any:
    return app.tenant("acme")


async def ended(app: Leasehold, placed: Enqueued[Any]) -> JobRecord:
    job = await app.tenant(placed.tenant).jobs.await_until_final(placed.id, PATIENCE)
    assert job is not None
    return job

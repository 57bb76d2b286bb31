"""Calls of leasehold.enqueue by SQL."""

from typing import Any

import asyncpg
import pytest
from tests.conftest import Raw
from tests.store.bench import Bench

from leasehold.model.job import EnqueueResult, JobId, JobRecord

DEFAULTS = "'acme', 'report'"


async def enqueue(connection: Raw, arguments: str = DEFAULTS) -> EnqueueResult:
    row = await connection.fetchrow(f"select * from leasehold.enqueue({arguments})")  # noqa: S608
    assert row is not None
    return EnqueueResult(JobId(str(row["job_id"])), row["created"], row["replaced"])


async def enqueued(bench: Bench, connection: Raw, arguments: str) -> JobRecord:
    return await bench.job((await enqueue(connection, arguments)).id)


async def refusal(connection: Raw, arguments: str) -> str:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(connection, arguments)
    error: Any = refused.value
    assert error.message.startswith(f"LH-{error.sqlstate[1:]}: ")
    return f"{error.sqlstate}: {error.message} {error.hint}"

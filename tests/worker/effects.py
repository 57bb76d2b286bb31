"""Effects of handlers: a row for each attempt that wrote one, in a table of the test."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, MetaData, String, Table
from tests.worker.shop import AT_ONCE, Shop, only

from leasehold.worker import Job

WRITE = "insert into effects (job, attempt) values ($1, $2)"
effects_table = Table("effects", MetaData(), Column("job", String), Column("attempt", String))


async def effects(shop: Shop) -> list[tuple[str, str]]:
    rows = await shop.observer.fetch("select job, attempt from effects order by attempt")
    return [(row["job"], row["attempt"]) for row in rows]


async def write(connection: Any, job: Job) -> None:
    await connection.execute(WRITE, job.id, str(job.attempt))


async def run_one(shop: Shop, handler: Callable[[Job, Any], Any], **fields: Any) -> Any:
    async with shop.working(only(handler, **{"backoff": AT_ONCE, **fields})):
        return await shop.ended(await shop.enqueue())

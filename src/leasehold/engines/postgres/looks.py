"""Pages of one tenant's jobs by traits, which no index serves: a page looks at a bounded number of jobs."""

from collections.abc import Awaitable, Callable
from typing import Any

from asyncpg import Record

from leasehold.engines.postgres import pages, rows
from leasehold.model.job import JobId
from leasehold.store import Filter, Page

Fetch = Callable[..., Awaitable[list[Record]]]

# Jobs that a page looks at, however few of them match (docs/decisions/0074).
LOOKED_AT = 10_000


async def find(fetch: Fetch, where: Filter, cursor: str | None, limit: int) -> Page:
    """Returns a page of matching jobs, newest first; with fewer of them and a cursor, if it has looked at enough."""
    pages.one_more_than(limit)
    (seen,) = await _look(fetch, where, up_to=pages.behind(cursor), share=LOOKED_AT)
    shown = seen["matching"][:limit]
    found = [rows.job(row) for row in await fetch("get", jobs=shown)] if shown else []
    jobs = sorted(found, key=lambda job: job.id, reverse=True)
    if len(seen["matching"]) > limit:
        return Page(jobs, str(shown[-1]))
    if seen["looked"] < LOOKED_AT:
        return Page(jobs, None)
    oldest = JobId(str(seen["oldest"]))
    return Page(jobs, oldest, down_to=oldest)


async def _look(fetch: Fetch, where: Filter, **place: Any) -> list[Record]:
    traits = pages.trait_columns(where)
    if where.error_group is not None:
        return await fetch("look_in_error_group", **place, **pages.columns_of_group(where), **traits)
    return await fetch("look", **place, **pages.filter_columns(where), **traits)

"""Listings, page by page: a filter and a cursor as statements take them, and rows as a page."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from asyncpg import Record

from leasehold.engines.postgres import rows
from leasehold.errors import InvalidInput
from leasehold.model.bounds import storable
from leasehold.model.job import JobRecord
from leasehold.model.status import ACTIVE, FINAL, Status
from leasehold.store import Filter, Page, Traits

GREATEST_ID = UUID(int=2**128 - 1)
# The columns of a filter that are the same for jobs in every state.
SHARED = ("definitions", "source", "correlation_id", "due", "tried", "created_after", "created_before")


def filter_columns(where: Filter) -> dict[str, Any]:
    statuses = where.statuses or tuple(Status)
    active = {status for status in statuses if status in ACTIVE}
    # Beside all that wait, those that run are found on the way.
    apart = active & {Status.RUNNING} if Status.QUEUED not in active else set()
    return {
        "active": [status.value for status in active - apart],
        "running": bool(apart),
        "succeeded": Status.SUCCEEDED in statuses,
        "unusual": [status.value for status in statuses if status in FINAL - {Status.SUCCEEDED}],
        "definitions": where.definitions or None,
        "source": where.source and where.source.value,
        "correlation_id": where.correlation_id,
        "due": where.due,
        "tried": where.tried,
        "created_after": where.created_after,
        "created_before": where.created_before,
    }


def trait_columns(where: Filter) -> dict[str, Any]:
    """Returns the traits of a filter; a column that is null matches any job."""
    traits = where.traits or Traits()
    return {
        "worker": traits.worker,
        "dedupe_key": traits.dedupe_key,
        "lowest_priority": traits.lowest_priority,
        "highest_priority": traits.highest_priority,
        "shortest": traits.shortest,
        "longest": traits.longest,
        "payload_path": traits.payload_path or None,
        "payload_value": traits.payload_value,
    }


def columns_of_group(where: Filter) -> dict[str, Any]:
    """Returns the columns of a filter by error group, whose jobs have ended without success."""
    columns = filter_columns(where)
    kept = {name: columns[name] for name in ("unusual", *SHARED)}
    return {**kept, "error_group": None if where.error_group is None else bytes.fromhex(where.error_group)}


def page(found: Sequence[Record], limit: int, cursor: Callable[[JobRecord], str]) -> Page:
    """Makes a page of rows that were read with one more than the page holds."""
    jobs = [rows.job(row) for row in found[:limit]]
    return Page(jobs, next=cursor(jobs[-1]) if len(found) > limit else None)


def one_more_than(limit: int) -> int:
    """Returns how many rows to read for a page of `limit` jobs: the last one tells whether there is a next page."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput(
            f"A page can't have {limit!r:.80} jobs: it has a whole number of them, at least 1.",
            fix="Nothing was read. Correct the limit.",
        )
    return limit + 1


def behind(cursor: str | None) -> UUID | None:
    """Returns the greatest id that may follow; in a tenant's listing a cursor is the id of the last job shown."""
    try:
        return GREATEST_ID if cursor is None else before(UUID(cursor))
    except (ValueError, TypeError, AttributeError) as error:  # UUID of other than text raises the latter two
        raise _no_cursor(cursor) from error


def cursor_everywhere(job: JobRecord) -> str:
    return cursor_at(job.id, job.tenant)


def cursor_at(job: object, tenant: str) -> str:
    """Returns a cursor of tenant and id: two tenants may have a job of the same id."""
    return f"{job}/{tenant}"


def behind_everywhere(cursor: str | None) -> dict[str, Any]:
    """Returns where each tenant goes on: tenants after the last one may still have a job of that very id."""
    if cursor is None:
        return {"last_tenant": "", "up_to": GREATEST_ID, "up_to_later": GREATEST_ID}
    try:
        job, _, tenant = cursor.partition("/")
        last = UUID(job)
        if tenant and storable(tenant):  # a table may hold a tenant that could not enqueue
            return {"last_tenant": tenant, "up_to": before(last), "up_to_later": last}
    except (ValueError, TypeError, AttributeError) as error:
        raise _no_cursor(cursor) from error
    raise _no_cursor(cursor)


def before(last: UUID) -> UUID | None:
    """Returns the next lower id, or None below the least one."""
    return UUID(int=last.int - 1) if last.int else None


def _no_cursor(cursor: str | None) -> InvalidInput:
    return InvalidInput(
        f"{cursor!r} is not a cursor of this listing.",
        fix="Nothing was read. Pass the `next` of the page before, or none.",
    )

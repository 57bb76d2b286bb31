"""Listings of jobs, newest first, from the index by tenant and status. The jobs themselves decide, not the index."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.items import read_job
from leasehold.engines.dynamodb.keys import JOB
from leasehold.engines.dynamodb.results import with_results
from leasehold.engines.dynamodb.table import LISTING, Table, gather
from leasehold.errors import InvalidInput
from leasehold.model.bounds import storable
from leasehold.model.error_group import GROUPED, error_group
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.status import Status
from leasehold.store import ErrorGroups, Filter, Page
from leasehold.store.error_groups import group_jobs

# No id is as great as this text.
_BEYOND_ALL = "~"
LISTED = tuple(status for status in Status if status is not Status.BLOCKED)
MOST_AT_ONCE = 200
# Jobs that are read to find their error groups.
GROUPED_AT_ONCE = 1000
# Looks of a page by traits, at up to MOST_AT_ONCE jobs each; a page of all tenants shares them out.
MOST_LOOKS = 10


class Listing:
    def __init__(self, table: Table) -> None:
        self._table = table

    async def find(
        self, tenant: TenantId, where: Filter, before: str | None, limit: int, now: datetime
    ) -> list[JobRecord]:
        """Returns up to `limit` jobs of a tenant with lower ids than `before`, the greatest first."""
        found: list[JobRecord] = []
        statuses = _statuses(where)
        size = min(limit, MOST_AT_ONCE)
        while len(found) < limit:
            ids, before = await self._ids(tenant, statuses, before or _BEYOND_ALL, size)
            found += [job for job in await self._records(tenant, ids, now) if _matches(job, where, now)]
            if before is None:
                break
        return found[:limit]

    async def look(
        self, tenant: TenantId, where: Filter, before: str | None, size: int, now: datetime
    ) -> tuple[list[JobRecord], str | None]:
        """Returns the matching ones of the next jobs, and below which the following ones are; None: that was all."""
        ids, lowest = await self._ids(tenant, _statuses(where), before or _BEYOND_ALL, size)
        found = [job for job in await self._records(tenant, ids, now) if _matches(job, where, now)]
        return found, lowest

    async def find_by_traits(
        self, tenant: TenantId, where: Filter, before: str | None, limit: int, now: datetime, looks: int = MOST_LOOKS
    ) -> tuple[list[JobRecord], str | None]:
        """Returns matching jobs after a bounded number of looks, more than `limit` if there are so many.

        Returns also the id down to which it has looked; None: that was all.
        """
        found, lowest = await self.look(tenant, where, before, MOST_AT_ONCE, now)
        for _ in range(looks - 1):
            if lowest is None or len(found) > limit:
                break
            more, lowest = await self.look(tenant, where, lowest, MOST_AT_ONCE, now)
            found += more
        return found, lowest

    async def look_at_chosen(
        self, tenant: TenantId, jobs: Sequence[JobId], where: Filter, before: str | None, size: int, now: datetime
    ) -> tuple[list[JobRecord], str | None]:
        """As `look`, among the jobs that are named."""
        ids = sorted((job for job in jobs if before is None or job < before), reverse=True)
        found = [job for job in await self._records(tenant, ids[:size], now) if _matches(job, where, now)]
        return found, ids[size - 1] if len(ids) > size else None

    async def error_groups(self, tenant: TenantId, limit: int, only: str | None, now: datetime) -> ErrorGroups:
        """Groups the newest jobs that gave up: no index has their groups."""
        found = await self.find(tenant, Filter(statuses=GROUPED, error_group=only), None, GROUPED_AT_ONCE, now)
        groups = group_jobs(found, now, is_cap=len(found) == GROUPED_AT_ONCE)
        return ErrorGroups(groups[:limit], len(groups) <= limit and len(found) < GROUPED_AT_ONCE)

    async def _ids(
        self, tenant: TenantId, statuses: Sequence[Status], before: str, size: int
    ) -> tuple[list[JobId], str | None]:
        """Returns the next ids, and below which the following ones are; None: these were the last.

        Each partition is asked for its own next ids. Down to the highest of their last ids, none can be missing.
        """
        pages = await gather(
            self._table.page(
                "#list_pk = :pk AND #list_sk < :before",
                {"pk": keys.list_pk(tenant, status.value, shard), "before": before},
                index=LISTING,
                limit=size,
                backward=True,
            )
            for status in statuses
            for shard in range(self._table.shards)
        )
        cut = [page.items[-1]["list_sk"] for page in pages if page.next is not None and page.items]
        lowest = max(cut, default=None)
        ids = {
            item["list_sk"] for page in pages for item in page.items if lowest is None or item["list_sk"] >= lowest
        }
        return [JobId(each) for each in sorted(ids, reverse=True)], lowest

    async def _records(self, tenant: TenantId, ids: Sequence[JobId], now: datetime) -> list[JobRecord]:
        found = await self._table.get_many(keys.job_key(tenant, job) for job in ids)
        items = [found[key] for job in ids if (key := (keys.job_pk(tenant, job), JOB)) in found]
        return [read_job(item, now) for item in await with_results(self._table, items)]

    async def count_ahead(self, job: JobRecord, most: int, now: datetime) -> int:
        """Counts due jobs of the tenant that were enqueued before this one, up to `most` of the latest of them."""
        ids, _ = await self._ids(job.tenant, [Status.QUEUED], job.id, most)
        found = await self._records(job.tenant, ids[:most], now)
        return sum(each.status is Status.QUEUED and each.due for each in found)

    async def counts(self, tenant: TenantId, cap: int) -> dict[Status, int]:
        async def count(status: Status, shard: int) -> int:
            values = {"pk": keys.list_pk(tenant, status.value, shard)}
            return await self._table.count("#list_pk = :pk", values, index=LISTING, cap=cap)

        wanted = [(status, shard) for status in LISTED for shard in range(self._table.shards)]
        numbers = await gather(count(status, shard) for status, shard in wanted)
        counted = dict.fromkeys(Status, 0)
        for (status, _), number in zip(wanted, numbers, strict=True):
            counted[status] = min(cap, counted[status] + number)
        return counted

    async def oldest_queued(self, tenant: TenantId, now: datetime) -> datetime | None:
        """Returns when the waiting job with the least id was queued, by one request for each shard, and one more."""
        pages = await gather(
            self._table.page(
                "#list_pk = :pk",
                {"pk": keys.list_pk(tenant, Status.QUEUED.value, shard)},
                index=LISTING,
                limit=1,
            )
            for shard in range(self._table.shards)
        )
        ids = sorted(item["list_sk"] for page in pages for item in page.items)
        found = await self._records(tenant, ids[:1], now) if ids else ()
        return found[0].queued_at if found else None

    async def find_all_tenants(
        self, tenants: Sequence[TenantId], where: Filter, cursor: str | None, limit: int, now: datetime
    ) -> Page:
        """Finds jobs of all tenants. Asks each tenant's partitions: many tenants make many requests."""
        job, last_tenant = _read_cursor(cursor)
        if where.traits is not None:
            starts = {tenant: _behind(tenant, job, last_tenant) for tenant in tenants}
            return await self._look_at_tenants(starts, where, limit, now)
        found = await gather(
            self.find(tenant, where, _behind(tenant, job, last_tenant), limit + 1, now) for tenant in tenants
        )
        jobs = _newest_first(record for records in found for record in records)
        return page(jobs, limit, lambda record: f"{record.id}/{record.tenant}")

    async def _look_at_tenants(
        self, starts: Mapping[TenantId, str | None], where: Filter, limit: int, now: datetime
    ) -> Page:
        """Looks at all tenants, and shows the matching jobs down to the id that each of them was looked at."""
        looks = max(1, MOST_LOOKS // max(1, len(starts)))
        looked = await gather(
            self.find_by_traits(tenant, where, before, limit, now, looks) for tenant, before in starts.items()
        )
        floor = max((lowest for _, lowest in looked if lowest is not None), default=None)
        found = _newest_first(job for jobs, _ in looked for job in jobs if floor is None or job.id >= floor)
        if len(found) > limit or floor is None:
            return page(found, limit, lambda record: f"{record.id}/{record.tenant}")
        return Page(found, f"{floor}/{max(starts)}", down_to=JobId(floor))


def _newest_first(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    return sorted(sorted(jobs, key=lambda job: job.tenant), key=lambda job: job.id, reverse=True)


def _statuses(where: Filter) -> list[Status]:
    return [status for status in LISTED if not where.statuses or status in where.statuses]


def _matches(job: JobRecord, where: Filter, now: datetime) -> bool:
    return (
        job.status in _statuses(where)
        and (not where.definitions or job.definition in where.definitions)
        and where.source in (None, job.source)
        and where.correlation_id in (None, job.correlation_id)
        and where.error_group in (None, _group_of(job))
        and where.due in (None, job.due)
        and where.tried in (None, job.attempt > 0)
        and (where.created_after is None or job.queued_at >= where.created_after)
        and (where.created_before is None or job.queued_at < where.created_before)
        and (where.traits is None or where.traits.match(job, now))
    )


def _group_of(job: JobRecord) -> str | None:
    if job.status not in GROUPED:
        return None
    return error_group(job.definition, job.last_error_code, job.last_error)


def page_of_look(found: Sequence[JobRecord], lowest: str | None, limit: int) -> Page:
    """Makes a page of a tenant's jobs that were found by looks down to the id `lowest`; None: that was all."""
    if len(found) > limit or lowest is None:
        return page(found, limit, lambda job: job.id)
    return Page(found, lowest, down_to=JobId(lowest))


def page(jobs: Sequence[JobRecord], limit: int, cursor: Callable[[JobRecord], str]) -> Page:
    """Makes a page of jobs that were read with one more than the page holds."""
    shown = jobs[:limit]
    return Page(shown, next=cursor(shown[-1]) if len(jobs) > limit else None)


def require_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput(
            f"A page can't have {limit!r:.80} jobs: it has a whole number of them, at least 1.",
            fix="Nothing was read. Correct the limit.",
        )


def read_cursor(cursor: str | None) -> str | None:
    """Returns the id below which a tenant's listing goes on."""
    try:
        return None if cursor is None else str(UUID(cursor))
    except (ValueError, TypeError, AttributeError) as error:  # UUID of other than text raises the latter two
        raise _no_cursor(cursor) from error


def _read_cursor(cursor: str | None) -> tuple[str | None, str]:
    """Returns the last job that was shown, and its tenant: two tenants may have a job of the same id."""
    if cursor is None:
        return None, ""
    try:
        job, _, tenant = cursor.partition("/")
        if tenant and storable(tenant):
            return str(UUID(job)), tenant
    except (ValueError, TypeError, AttributeError) as error:
        raise _no_cursor(cursor) from error
    raise _no_cursor(cursor)


def _behind(tenant: TenantId, job: str | None, last_tenant: str) -> str | None:
    """Returns where a tenant goes on: tenants after the last one may still have a job of that very id."""
    if job is None or tenant <= last_tenant:
        return job
    return f"{job}{_BEYOND_ALL}"


def _no_cursor(cursor: object) -> InvalidInput:
    return InvalidInput(
        f"{cursor!r} is not a cursor of this listing.",
        fix="Nothing was read. Pass the `next` of the page before, or none.",
    )

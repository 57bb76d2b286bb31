"""Groups of jobs that gave up for the same reason, as an engine reads them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from leasehold.model.error_group import error_group
from leasehold.model.job import JobId, JobRecord, TenantId

RECENT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failed and dead jobs of a tenant with one error.

    `code` and `error` are those of its newest job. `jobs` is counted up to a cap; `is_cap`: there may be more.
    `recent` are those of the last 24 hours. `first_at` and `last_at` are ends of the jobs that were looked at.
    """

    id: str
    tenant: TenantId
    definition: str
    code: str | None
    error: str | None
    jobs: int
    is_cap: bool
    recent: int
    first_at: datetime
    last_at: datetime
    newest: JobId


@dataclass(frozen=True, slots=True)
class ErrorGroups:
    """Error groups, those with the latest job first. `is_whole`: there are no others."""

    groups: Sequence[ErrorGroup]
    is_whole: bool


def latest_first(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    return sorted(groups, key=attrgetter("last_at", "id"), reverse=True)


def group_jobs(jobs: Iterable[JobRecord], now: datetime, *, is_cap: bool) -> list[ErrorGroup]:
    """Groups jobs that were read, the newest first: for an engine that has no index by group."""
    found: dict[tuple[TenantId, str], list[JobRecord]] = {}
    for job in jobs:
        found.setdefault((job.tenant, error_group(job.definition, job.last_error_code, job.last_error)), []).append(
            job
        )
    return latest_first(_group(key, members, now, is_cap) for (_, key), members in found.items())


def _group(key: str, members: Sequence[JobRecord], now: datetime, is_cap: bool) -> ErrorGroup:
    newest, ends = members[0], [job.finished_at or job.queued_at for job in members]
    return ErrorGroup(
        key,
        newest.tenant,
        newest.definition,
        newest.last_error_code,
        newest.last_error,
        len(members),
        is_cap,
        sum(end > now - RECENT for end in ends),
        min(ends),
        max(ends),
        newest.id,
    )

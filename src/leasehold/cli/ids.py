"""Which job is meant: by its whole id, or by the end of it."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from leasehold.cli.words import counted, visible
from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.store import Filter, Store

NEWEST = 1000
AT_ONCE = 200
_END_OF_AN_ID = re.compile(r"[0-9a-f-]{4,35}")


@dataclass(frozen=True, slots=True)
class Address:
    """A job, and the tenant whose it is."""

    tenant: TenantId
    job: JobId


async def find_job(store: Store, text: str, tenant: TenantId | None) -> Address:
    """Raises UnknownJob, or InvalidInput for what is no id or fits several jobs. Nothing is changed by looking."""
    spelled = text.strip().lower()
    whole = _whole(spelled)
    if whole is None and not _END_OF_AN_ID.fullmatch(spelled):
        raise InvalidInput(
            f"{text[:120]!r} is no job id: that is a UUID, or at least the last 4 characters of one.",
            fix="Nothing was changed. Copy it from `leasehold jobs`.",
        )
    if whole is not None:
        return Address(tenant or await _owner(store, whole), whole)
    return await _by_its_end(store, spelled, tenant)


def _whole(text: str) -> JobId | None:
    try:
        return JobId(str(UUID(text)))
    except ValueError:
        return None


async def _owner(store: Store, job: JobId) -> TenantId:
    owners = await store.tenants_with_job(job)
    if not owners:
        raise UnknownJob(f"no tenant has a job {job}.", fix="Nothing was changed. Look for it: leasehold jobs.")
    if len(owners) > 1:
        raise InvalidInput(
            f"{counted(len(owners), 'tenant')} have a job {job}: {', '.join(map(visible, owners))}.",
            fix="Nothing was changed. Say whose you mean, with --tenant.",
        )
    return owners[0]


async def _by_its_end(store: Store, end: str, tenant: TenantId | None) -> Address:
    matching = [job async for job in _newest(store, tenant) if job.id.endswith(end)]
    if not matching:
        where = f"tenant {tenant!r}" if tenant else "all tenants"
        raise UnknownJob(
            f"no id of the newest {NEWEST:,} jobs of {where} ends with {end!r}.",
            fix="Nothing was changed. Pass the whole id, or look for it: leasehold jobs.",
        )
    if len(matching) > 1:
        raise InvalidInput(
            f"{counted(len(matching), 'job')} end with {end!r}: {_listed(matching)}.",
            fix="Nothing was changed. Pass more of the id.",
        )
    return Address(matching[0].tenant, matching[0].id)


async def _newest(store: Store, tenant: TenantId | None) -> AsyncIterator[JobRecord]:
    find = store.tenant(tenant).find if tenant else store.find_all_tenants
    cursor: str | None = None
    for _ in range(NEWEST // AT_ONCE):
        page = await find(Filter(), cursor, AT_ONCE)
        for job in page.jobs:
            yield job
        cursor = page.next
        if cursor is None:
            return


def _listed(jobs: Sequence[JobRecord]) -> str:
    return ", ".join(
        f"{job.id} ({visible(job.tenant)}, {visible(job.definition)}, {job.display})" for job in jobs[:10]
    )

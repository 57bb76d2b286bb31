"""The life of a tenant: listed, looked at, exported, deleted."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.errors import UnknownTenant
from leasehold.model.audit import Actor
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.operation import OperationKind, Pace
from leasehold.model.tries import first_attempt, try_numbers
from leasehold.model.trigger import Trigger
from leasehold.operations import views
from leasehold.operations.audit import audited
from leasehold.store import Filter, NewOperation, Operation, Store, TenantJobs, TenantUsage

COUNTED = 10_000
JOBS_AT_ONCE = 100
TRIGGERS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class TenantPage:
    """Tenants by name. `next` is the cursor of the following page; None: this was the last one."""

    tenants: Sequence[TenantId]
    next: str | None


async def list_page(store: Store, cursor: str | None, limit: int) -> TenantPage:
    found = await store.tenants(limit + 1, None if cursor is None else TenantId(cursor))
    shown = found[:limit]
    return TenantPage(shown, shown[-1] if len(found) > limit else None)


async def usage(store: Store, tenant: TenantId) -> TenantUsage:
    """Returns what a tenant has, each kind counted up to 10,000. Raises UnknownTenant."""
    found = await store.tenant_usage(tenant, COUNTED)
    if found is None:
        raise UnknownTenant(
            f"no tenant is called {tenant!r}. Nothing was changed.", fix="List them: leasehold tenants list"
        )
    return found


async def delete(
    store: Store,
    tenant: TenantId,
    *,
    pace: Pace | None = None,
    created_by: str | None = None,
    actor: Actor | None = None,
) -> Operation:
    """Begins the removal of a tenant, or returns the one that is under way. Raises UnknownTenant.

    With an actor, the audit log names who deleted it; that entry stays.
    """
    new = NewOperation(OperationKind.DELETE_TENANT, tenant, pace=pace, created_by=created_by)

    def begin() -> Awaitable[Operation]:
        return store.operations.begin(new)

    def shown(begun: Operation) -> dict[str, Any]:
        return {"operation": begun.id}

    return await audited(store, actor, "tenant.delete", f"tenant {tenant}", begin, shows=shown, tenant=tenant)


async def export(store: Store, tenant: TenantId) -> AsyncGenerator[dict[str, Any], None]:
    """Yields all that a tenant has as documents, page by page and without secrets. Raises UnknownTenant."""
    used = await usage(store, tenant)
    yield {"record": "tenant", **views.usage(used)}
    async for trigger in _triggers(store, tenant):
        yield {"record": "trigger", **views.trigger(trigger)}
    jobs = store.tenant(tenant)
    async for record in _jobs(jobs):
        yield {"record": "job", **views.job(record), **await _story(jobs, record)}


async def _story(jobs: TenantJobs, record: JobRecord) -> dict[str, Any]:
    """Reads the attempts and all lines of a job."""
    if not record.attempt:
        return {"attempts": [], "lines": []}
    attempts = await jobs.attempts(record.id)
    numbers = try_numbers(attempts, first_attempt(record, attempts))
    lines = []
    for attempt in attempts:
        after = 0
        while found := await jobs.lines(record.id, attempt.number, after):
            lines += [views.line(attempt.number, numbers[attempt.number], line) for line in found]
            after = found[-1].number
    return {"attempts": [views.attempt(each, numbers[each.number]) for each in attempts], "lines": lines}


async def _jobs(jobs: TenantJobs) -> AsyncGenerator[JobRecord, None]:
    cursor: str | None = None
    while True:
        page = await jobs.find(Filter(), cursor, JOBS_AT_ONCE)
        for record in page.jobs:
            yield record
        cursor = page.next
        if cursor is None:
            return


async def _triggers(store: Store, tenant: TenantId) -> AsyncGenerator[Trigger, None]:
    triggers = store.triggers(tenant)
    after = None
    while True:
        found = await triggers.list(TRIGGERS_AT_ONCE, after)
        for trigger in found:
            yield trigger
        if len(found) < TRIGGERS_AT_ONCE:
            return
        after = found[-1].id

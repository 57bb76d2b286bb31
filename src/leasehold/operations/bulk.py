"""Operations on many jobs: planned, begun, followed to their end, aborted."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from leasehold.errors import InvalidInput, UnknownOperation, WrongState
from leasehold.model.access import Permission
from leasehold.model.audit import Actor
from leasehold.model.job import JobId, TenantId
from leasehold.model.operation import COUNTED, SAMPLE, OperationId, OperationKind, Pace
from leasehold.model.status import Status
from leasehold.operations.audit import audited
from leasehold.store import Filter, NewOperation, Operation, OperationPage, Store
from leasehold.store.operations import Plan, selection_document

# A plan looks at so many jobs at a time, so many times.
PLANNED_AT_ONCE = 10_000
MOST_LOOKS = 20
# Jobs whose dedupe keys are looked up for a plan.
CHECKED_KEYS = 1000
# Seconds between two looks at an operation that another process runs.
BETWEEN_LOOKS = 0.5


def new_operation(
    kind: OperationKind,
    tenant: TenantId,
    where: Filter,
    pace: Pace | None = None,
    *,
    canary: bool = False,
    created_by: str | None = None,
    jobs: tuple[JobId, ...] = (),
    as_of: datetime | None = None,
    reason: str | None = None,
) -> NewOperation:
    """Makes an operation; a filter without statuses means the usual ones, and for named jobs all that can be changed.

    Raises InvalidInput.
    """
    if not where.statuses:
        statuses = tuple(sorted(kind.statuses)) if jobs else kind.default_statuses
        where = replace(where, statuses=statuses)
    return NewOperation(
        kind, tenant, where, pace, canary, created_by=created_by, jobs=jobs, as_of=as_of, reason=reason
    )


async def plan(store: Store, new: NewOperation) -> Plan:
    """Counts the jobs that match, by statements that each look at a bounded number of jobs. Changes nothing."""
    first: list[JobId] = []
    matching, place = 0, None
    for _ in range(MOST_LOOKS):
        looked = await store.operations.look(new, place, PLANNED_AT_ONCE, COUNTED - matching)
        found = [job.id for job in looked.jobs if not job.later]
        first += found[: CHECKED_KEYS - len(first)]
        matching, place = matching + len(found), looked.place
        if place is None or matching == COUNTED:
            break
    is_retry = new.kind is OperationKind.RETRY
    duplicates = len(await store.tenant(new.tenant).taken_keys(first)) if is_retry else 0
    return Plan(new, matching, place is not None, first[:SAMPLE], duplicates)


async def begin(store: Store, planned: Plan, actor: Actor | None = None) -> Operation:
    """Begins what was planned. Any worker runs it from now on. With an actor, the audit log names who began it."""
    new = replace(planned.operation, total=planned.matching, total_is_cap=planned.is_cap)

    def begin() -> Awaitable[Operation]:
        return store.operations.begin(new)

    return await audited(store, actor, f"operation.{new.kind}", "jobs", begin, shows=_summarize, tenant=new.tenant)


async def get(store: Store, operation: str, tenant: TenantId | None = None) -> Operation:
    """Returns an operation. Raises UnknownOperation, also for one of another tenant than the one that is named."""
    found = await store.operations.get(_operation_id(operation), tenant)
    if found is None:
        raise _unknown(operation)
    return found


async def list_page(store: Store, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
    return await store.operations.list(tenant, cursor, limit)


def permission_to_abort(operation: Operation) -> Permission:
    """Returns what aborting needs: to stop the removal of a tenant, as much as to begin it."""
    removes = operation.kind is OperationKind.DELETE_TENANT
    return Permission.TENANTS_WRITE if removes else Permission.JOBS_CHANGE


async def abort(
    store: Store, operation: str, tenant: TenantId | None = None, actor: Actor | None = None
) -> Operation:
    """Ends an operation before its next batch. Raises UnknownOperation, or WrongState if it has ended."""
    before = await get(store, operation, tenant)
    if before.state.ended:
        raise WrongState(
            f"operation {before.id} can't be aborted: it is {before.state}. Nothing was changed.",
            fix=f"Look at it: leasehold operations show {before.id}",
        )

    async def abort() -> Operation:
        return await store.operations.abort(before.id, tenant) or before

    subject = f"operation {before.id}"
    return await audited(store, actor, "operation.abort", subject, abort, shows=_summarize, tenant=before.tenant)


def _summarize(operation: Operation) -> dict[str, Any]:
    """Returns what the audit log keeps of an operation."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "state": operation.state.value,
        "filter": selection_document(operation),
        "reason": operation.reason,
        "total": operation.total,
    }


async def run(store: Store, operation: Operation) -> AsyncGenerator[Operation, None]:
    """Runs an operation in this process, beside others, and yields it after each look until it has ended."""
    while not operation.state.ended:
        stepped = await store.operations.step(operation.id)
        operation = stepped.operation or await get(store, operation.id)
        yield operation
        if operation.state.ended:
            return
        wait = stepped.wait.total_seconds() if stepped.wait else 0.0
        if wait > 0 or stepped.operation is None:
            await asyncio.sleep(min(max(wait, 0.01), BETWEEN_LOOKS))


def read_statuses(kind: OperationKind, words: Sequence[str]) -> tuple[Status, ...]:
    """Reads the statuses of a filter, in any spelling. Raises InvalidInput for one that the kind can't change."""
    known = {status.value: status for status in kind.statuses}
    read: list[Status] = []
    for word in words:
        spelled = word.strip().lower().replace("-", "_").replace(" ", "_")
        if spelled not in known:
            near = get_close_matches(spelled, known, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            raise InvalidInput(
                f"A {kind} can't change jobs that are {word!r}.{hint}",
                fix=f"Nothing was changed. There are: {', '.join(sorted(known))}.",
            )
        read.append(known[spelled])
    return tuple(dict.fromkeys(read))


def _operation_id(text: str) -> OperationId:
    try:
        return OperationId(str(UUID(text.strip())))
    except ValueError as error:
        raise InvalidInput(
            f"{text[:120]!r} is not the id of an operation, which is a UUID.",
            fix="Nothing was changed. Copy it from: leasehold operations list",
        ) from error


def _unknown(operation: str) -> UnknownOperation:
    return UnknownOperation(
        f"no operation has the id {operation}. Nothing was changed.", fix="List them: leasehold operations list"
    )

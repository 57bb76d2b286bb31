"""Operations in DynamoDB: a batch is done under a turn of its operation, which one runner holds at a time.

    PK                  SK
    operations          <id>    an operation
    operations-due      <id>    one that has not ended: the few that runners look at
    control             version counts those that have not ended; each heartbeat reads it anyway

A runner takes the next turn by a conditional write, for a minute, and its last write requires that the turn is still
its own. A batch whose runner died is done again by the next turn: jobs that it had changed match no longer, so that
they are changed once, and are missing in the counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
from uuid_utils import uuid7

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.find import Listing, require_limit
from leasehold.engines.dynamodb.keys import CATALOG, CONTROL_VERSION, Key, read_timestamp, tenant_sk, timestamp
from leasehold.engines.dynamodb.removal import Removal
from leasehold.engines.dynamodb.table import EXISTS, NEW, Delete, Put, Table, Update
from leasehold.engines.dynamodb.tenant import DynamoTenantJobs
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import UnknownTenant
from leasehold.faults import reach
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.operation import OperationId, OperationKind, OperationState, Pace
from leasehold.store import CancelAnswer, RetryAnswer
from leasehold.store.operation_batch import run_batch
from leasehold.store.operations import (
    Looked,
    NewOperation,
    Operation,
    OperationPage,
    Removed,
    SeenJob,
    Stepped,
    read_selection,
    selection_document,
)

OPERATIONS, DUE = "operations", "operations-due"
# How long a turn lasts: no batch takes as long.
TURN = timedelta(seconds=60)
# Jobs that one look reads of each status: each costs a read of the job itself.
READ_AT_ONCE = 200
_MOMENTS = ("created_at", "started_at", "ended_at", "due_at")


class DynamoOperations:
    def __init__(
        self,
        table: Table,
        clock: Clock,
        tenants: Tenants,
        removal: Removal,
        jobs_of: Callable[[TenantId], DynamoTenantJobs],
    ) -> None:
        self._table = table
        self._clock = clock
        self._tenants = tenants
        self._removal = removal
        self._jobs_of = jobs_of
        self._lookup = _Lookup(table, clock)

    async def begin(self, new: NewOperation) -> Operation:
        now = await self._clock.now()
        operation = OperationId(str(uuid7()))
        item = _new_item(operation, new, now)
        writes: list[Put | Update] = [
            Put(item, NEW),
            Put({"PK": DUE, "SK": operation}),
            _count_open(1),
        ]
        if new.kind is OperationKind.DELETE_TENANT:
            closing = f"{EXISTS} AND attribute_not_exists(#deleted_by)"
            writes.append(Update((CATALOG, tenant_sk(new.tenant)), {"deleted_by": operation}, closing))
        try:
            await self._table.transact(writes)
        except ConditionFailed:
            return await self._removal_under_way(new.tenant)
        self._tenants.forget(new.tenant)
        return _operation(item)

    async def _removal_under_way(self, tenant: TenantId) -> Operation:
        found = await self._table.get((CATALOG, tenant_sk(tenant)))
        operation = found and found.get("deleted_by") and await self.get(found["deleted_by"])
        if not operation:
            raise UnknownTenant(
                f"no tenant is called {tenant!r}. Nothing was deleted.", fix="List them: leasehold tenants list"
            )
        return operation

    async def get(self, operation: OperationId, tenant: TenantId | None = None) -> Operation | None:
        found = await self._table.get((OPERATIONS, operation))
        return None if found is None or tenant not in (None, found["tenant"]) else _operation(found)

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
        require_limit(limit)
        values = {"pk": OPERATIONS, "before": cursor or "~"}
        found: Any = []
        async for item in self._table.query("#PK = :pk AND #SK < :before", values, backward=True, limit=1000):
            if tenant in (None, item["tenant"]):
                found.append(_operation(item))
            if len(found) > limit:
                break
        return OperationPage(found[:limit], found[limit - 1].id if len(found) > limit else None)

    async def abort(self, operation: OperationId, tenant: TenantId | None = None) -> Operation | None:
        """Asks the runner to end it before its next batch. If no runner has a turn, takes one and ends it."""
        if tenant is not None and await self.get(operation, tenant) is None:
            return None
        condition = f"{EXISTS} AND attribute_exists(#due_at)"
        change = Update((OPERATIONS, operation), {"abort": True}, condition)
        try:
            found = await self._table.update(change)
        except ConditionFailed as failed:
            return None if failed.item is None else _operation(failed.item)
        now = await self._clock.now()
        if found.get("turn_until", "") <= timestamp(now) and (taken := await self._take(found, now)) is not None:
            return await self._run(taken)
        return _operation(found)

    async def look(self, new: NewOperation, place: str | None, scan: int, limit: int) -> Looked:
        return await self._lookup.look(new, place, new.as_of, scan, limit)

    # ------------------------------------------------------------------------------------------------------- batches

    async def step(self, only: OperationId | None = None) -> Stepped:
        now = await self._clock.now()
        due = [OperationId(item["SK"]) async for item in self._table.query("#PK = :pk", {"pk": DUE})]
        wanted = [(OPERATIONS, each) for each in due if only in (None, each)]
        found = [item for item in (await self._table.get_many(wanted)).values() if "due_at" in item]
        for item in sorted(found, key=_next_moment):
            if _next_moment(item) > timestamp(now):
                break
            taken = await self._take(item, now)
            if taken is not None:
                after = await self._run(taken)
                others = [_next_moment(each) for each in found if each["SK"] != item["SK"]]
                moments = [*others, *([timestamp(after.due_at)] if after.due_at else [])]
                return Stepped(after, _until(moments, await self._clock.now()))
        return Stepped(None, _until([_next_moment(item) for item in found], now))

    async def _take(self, item: Item, now: datetime) -> Item | None:
        """Takes the next turn; None if another runner has taken it."""
        turn = item.get("turn", 0)
        sets = {"turn": turn + 1, "turn_until": timestamp(now + TURN), "state": _taken_state(item).value}
        try:
            return await self._table.update(Update(_key(item), sets, "#turn = :seen", {"seen": turn}))
        except ConditionFailed:
            return None

    async def _run(self, item: Item) -> Operation:
        before = _operation(item)
        if item.get("abort"):
            before = replace(before, state=OperationState.ABORTING)
        done = await run_batch(before, _Batch(self._lookup, self._removal, self._jobs_of(before.tenant)))
        reach("before_batch_saved")
        now = await self._clock.now()
        after = replace(
            done.operation,
            started_at=before.started_at or now,
            ended_at=now if done.operation.state.ended else None,
            due_at=None if done.operation.state.ended else now + timedelta(seconds=done.wait),
        )
        sets = {**_progress(after), "turn_until": None}
        saved = Update(_key(item), sets, "#turn = :mine", {"mine": item["turn"]})
        writes: list[Update | Delete] = [saved]
        if after.state.ended:
            writes += [Delete((DUE, after.id)), _count_open(-1)]
            if after.state is OperationState.ABORTED and after.kind is OperationKind.DELETE_TENANT:
                writes.append(Update((CATALOG, tenant_sk(after.tenant)), {"deleted_by": None}, EXISTS))
        try:
            await self._table.transact(writes)
        except ConditionFailed:  # the turn was over, and another runner has done the batch again
            return await self.get(before.id) or before
        return after


class _Lookup:
    """Finds the jobs of an operation."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._listing = Listing(table)
        self._clock = clock

    async def look(
        self,
        of: NewOperation | Operation,
        place: str | None,
        began: datetime | None,
        scan: int,
        limit: int,
    ) -> Looked:
        now = await self._clock.now()
        size = min(scan, READ_AT_ONCE)
        if of.jobs:
            found, lowest = await self._listing.look_at_chosen(of.tenant, of.jobs, of.where, place, size, now)
        else:
            found, lowest = await self._listing.look(of.tenant, of.where, place, size, now)
        jobs = [SeenJob(job.id, job.attempt, _is_later(of.kind, job, began)) for job in found]
        if len(jobs) > limit:
            return Looked(jobs[:limit], jobs[limit - 1].id)
        return Looked(jobs, lowest)


class _Batch:
    """The verbs of a batch."""

    def __init__(self, lookup: _Lookup, removal: Removal, jobs: DynamoTenantJobs) -> None:
        self._lookup = lookup
        self._removal = removal
        self._jobs = jobs

    async def look(self, operation: Operation, scan: int, limit: int) -> Looked:
        began = operation.as_of or operation.created_at
        return await self._lookup.look(operation, operation.place, began, scan, limit)

    async def get(self, job: JobId) -> JobRecord | None:
        return await self._jobs.get(job)

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        return await self._jobs.retry(seen)

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        return await self._jobs.cancel(jobs)

    async def remove(self, operation: Operation) -> Removed:
        return await self._removal.remove(operation, self._jobs)


def _taken_state(item: Item) -> OperationState:
    return OperationState.ABORTING if item.get("abort") else OperationState.RUNNING


def _count_open(change: int) -> Update:
    return Update(CONTROL_VERSION, {}, None, {"change": change}, "ADD #operations :change")


def _next_moment(item: Item) -> str:
    """Returns when a runner may take it: when it is due and no other runner has its turn."""
    return max(str(item["due_at"]), str(item.get("turn_until", "")))


def _until(moments: Sequence[str], now: datetime) -> timedelta | None:
    return read_timestamp(min(moments)) - now if moments else None


def _is_later(kind: OperationKind, job: JobRecord, began: datetime | None) -> bool:
    moment = job.finished_at if kind is OperationKind.RETRY else job.queued_at
    return began is not None and moment is not None and moment > began


def _key(item: Item) -> Key:
    return item["PK"], item["SK"]


def _new_item(operation: OperationId, new: NewOperation, now: datetime) -> dict[str, Any]:
    fields = {
        "kind": new.kind.value,
        "tenant": new.tenant,
        "state": OperationState.PLANNED.value,
        "job_filter": orjson.dumps(selection_document(new)).decode(),
        "pace": None if new.pace is None else repr(new.pace.jobs_per_second),
        "canary": new.canary,
        "total": new.total,
        "total_is_cap": new.total_is_cap,
        "created_by": new.created_by,
        "reason": new.reason,
        "created_at": timestamp(now),
        "due_at": timestamp(now),
        "turn": 0,
    }
    kept = {name: value for name, value in fields.items() if value is not None}
    return {"PK": OPERATIONS, "SK": operation, **kept}


def _progress(after: Operation) -> dict[str, Any]:
    moments = {name: getattr(after, name) for name in _MOMENTS}
    return {
        "state": after.state.value,
        "canary": after.canary,
        "canary_job": after.canary_job,
        "place": after.place,
        "done": after.done,
        "skipped": after.skipped,
        "refused": after.refused,
        "details": orjson.dumps(dict(after.details)).decode(),
        "error": None if after.error is None else after.error[:1000],
        **{name: None if moment is None else timestamp(moment) for name, moment in moments.items()},
    }


def _operation(item: Mapping[str, Any]) -> Operation:
    moments: dict[str, Any] = {name: read_timestamp(item[name]) if item.get(name) else None for name in _MOMENTS}
    created = moments.pop("created_at")
    assert created is not None
    state = OperationState(item["state"])
    return Operation(
        id=OperationId(item["SK"]),
        kind=OperationKind(item["kind"]),
        tenant=TenantId(item["tenant"]),
        state=OperationState.ABORTING if item.get("abort") and not state.ended else state,
        **read_selection(orjson.loads(item["job_filter"])),
        pace=None if item.get("pace") is None else Pace(float(item["pace"])),
        canary=bool(item.get("canary")),
        canary_job=None if item.get("canary_job") is None else JobId(item["canary_job"]),
        place=item.get("place"),
        total=item.get("total"),
        total_is_cap=bool(item.get("total_is_cap")),
        done=item.get("done", 0),
        skipped=item.get("skipped", 0),
        refused=item.get("refused", 0),
        details=orjson.loads(item.get("details", "{}")),
        error=item.get("error"),
        created_by=item.get("created_by"),
        reason=item.get("reason"),
        created_at=created,
        **moments,
    )

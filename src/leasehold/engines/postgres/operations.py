"""Operations in Postgres: a batch and its place are written in one transaction, under the lock of its row.

No runner can do a batch that another one has done or is doing, and after a crash nothing of an unfinished batch is
left: any other runner goes on from the place of the last batch.
"""

import logging
from collections import Counter
from collections.abc import Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import orjson
from asyncpg import Record
from uuid_utils import uuid7

from leasehold.engines.postgres import pages, rows
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.database import Database, IdleLink
from leasehold.errors import InvalidInput, LeaseholdError, TransactionConflict, UnknownTenant, Unreachable
from leasehold.faults import reach
from leasehold.model.job import JobId, JobRecord, TenantId, job_id
from leasehold.model.operation import REMOVED_AT_ONCE, OperationId, OperationKind, OperationState, Pace
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
from leasehold.store.tenant_jobs import CancelAnswer, RetryAnswer

if TYPE_CHECKING:
    from datetime import datetime

    from leasehold.engines.postgres.database import Connection

log = logging.getLogger("leasehold.operations")

# Seconds after which the connection is closed that runs batches.
IDLE = 10.0
# The rows of a tenant by what they are, in the order of their removal. A table that is added later has its line here.
REMOVED: Mapping[str, str] = {
    "tokens": "operations/remove_tokens",
    "waiting_jobs": "operations/remove_waiting",
    "lines": "operations/remove_lines",
    "attempts": "operations/remove_attempts",
    "ended_jobs": "operations/remove_ended",
    "dedupe_keys": "operations/remove_keys",
    "events": "operations/remove_events",
    "decisions": "operations/remove_decisions",
    "triggers": "operations/remove_triggers",
    "limits": "operations/remove_limits",
    "views": "operations/remove_views",
    "minutes": "operations/remove_series_minutes",
    "hours": "operations/remove_series_hours",
    "usage": "operations/remove_usage",
}


class PostgresOperations:
    """Batches have a connection of their own, whose settings keep plans to indexes; they are planned each time."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._databases = databases
        self._database = databases.whole
        self._link = IdleLink(self._database, IDLE)

    async def close(self) -> None:
        await self._link.close()

    async def begin(self, new: NewOperation) -> Operation:
        if new.kind is OperationKind.DELETE_TENANT:
            return await self._begin_removal(new)
        (row,) = await self._databases.of(new.tenant).fetch(
            "operations/begin",
            id=str(uuid7()),
            kind=new.kind.value,
            tenant=new.tenant,
            job_filter=orjson.dumps(selection_document(new)).decode(),
            pace=new.pace and new.pace.jobs_per_second,
            canary=new.canary,
            total=new.total,
            total_is_cap=new.total_is_cap,
            created_by=new.created_by,
            reason=new.reason,
        )
        return operation(row)

    async def _begin_removal(self, new: NewOperation) -> Operation:
        begun = await self._database.fetch(
            "operations/begin_removal",
            id=str(uuid7()),
            tenant=new.tenant,
            pace=new.pace and new.pace.jobs_per_second,
            created_by=new.created_by,
        ) or await self._database.fetch("operations/removal", tenant=new.tenant)
        if not begun:
            raise UnknownTenant(
                f"no tenant is called {new.tenant!r}. Nothing was deleted.", fix="List them: leasehold tenants list"
            )
        return operation(begun[0])

    async def get(self, operation_id: OperationId, tenant: TenantId | None = None) -> Operation | None:
        found = await self._databases.of_one_or_all(tenant).fetch(
            "operations/get", operation=operation_id, tenant=tenant
        )
        return operation(found[0]) if found else None

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
        before, most = _before(cursor), pages.one_more_than(limit)
        if tenant is None:
            found = await self._database.fetch("operations/list", before=before, limit=most)
        else:
            found = await self._databases.of(tenant).fetch(
                "operations/list_of_tenant", tenant=tenant, before=before, limit=most
            )
        shown = [operation(row) for row in found[:limit]]
        return OperationPage(shown, shown[-1].id if len(found) > limit else None)

    async def abort(self, operation_id: OperationId, tenant: TenantId | None = None) -> Operation | None:
        aborted = await self._databases.of_one_or_all(tenant).fetch(
            "operations/abort", operation=operation_id, tenant=tenant
        )
        return operation(aborted[0]) if aborted else await self.get(operation_id, tenant)

    async def look(self, new: NewOperation, place: str | None, scan: int, limit: int) -> Looked:
        by_group = _is_by_group(new)
        async with (
            self._link.session() as connection,
            self._databases.confining(new.tenant, connection, by_group=by_group),
        ):
            looker = _Looker(self._database, connection, new.tenant)
            return await looker.find(new, place, new.as_of, scan, limit)

    async def step(self, only: OperationId | None = None) -> Stepped:
        taken: MutableSequence[OperationId] = []
        try:
            async with self._link.transaction() as connection:
                done = await self._step(connection, only, taken)
            found = await self._link.fetch("operations/next", only=only)
            return Stepped(done, found[0]["wait"] if found else None)
        except (Unreachable, TransactionConflict):
            raise
        except (LeaseholdError, asyncpg.PostgresError) as error:
            if not taken:
                raise
            log.exception("operation %s is ended, since its batch can't be done", taken[0])
            failed = await self._database.fetch("operations/fail", operation=taken[0], error=str(error))
            return Stepped(operation(failed[0]) if failed else None, None)

    async def _step(
        self, connection: "Connection", only: OperationId | None, taken: MutableSequence[OperationId]
    ) -> Operation | None:
        found = await self._database.fetch_planned_on(connection, "operations/take", only=only)
        if not found:
            return None
        before = operation(found[0])
        taken.append(before.id)
        done = await run_batch(before, _Batch(self._database, connection, before.tenant))
        after = done.operation
        reach("before_batch_saved")
        (row,) = await self._database.fetch_planned_on(
            connection,
            "operations/save",
            operation=after.id,
            state=after.state.value,
            canary=after.canary,
            canary_job=after.canary_job,
            place=after.place,
            done=after.done,
            skipped=after.skipped,
            refused=after.refused,
            details=orjson.dumps(dict(after.details)).decode(),
            error=after.error,
            ended=after.state.ended,
            wait=done.wait,
        )
        return operation(row)


class _Looker:
    """Finds the jobs of an operation, part by part: one for each status of ended jobs, one for all active jobs."""

    def __init__(self, database: Database, connection: "Connection", tenant: TenantId) -> None:
        self._database = database
        self._connection = connection
        self._tenant = tenant

    async def _fetch(self, name: str, /, **values: Any) -> list[Record]:
        """Sends a statement of the tenant, and adds the tenant to it."""
        return await self._database.fetch_planned_on(self._connection, name, tenant=self._tenant, **values)

    async def find(
        self, of: NewOperation | Operation, place: str | None, began: "datetime | None", scan: int, limit: int
    ) -> Looked:
        parts: list[tuple[str, ...]] = [(status.value,) for status in sorted(of.where.statuses)]
        if of.kind is OperationKind.CANCEL or of.jobs or of.where.error_group is not None:
            parts = [tuple(status.value for status in of.where.statuses)]
        number, last = orjson.loads(place) if place else (0, None)
        (row,) = await self._look_at(of, parts[number], last, began, scan, limit)
        jobs = [
            SeenJob(JobId(str(job)), attempt, later)
            for job, attempt, later in zip(row["ids"], row["attempts"], row["laters"], strict=True)
        ]
        following: list[Any] | None = [number + 1, None] if number + 1 < len(parts) else None
        if len(jobs) == limit:
            following = [number, jobs[-1].id]
        elif row["looked"] == scan:
            following = [number, str(row["last"])]
        return Looked(jobs, None if following is None else orjson.dumps(following).decode())

    async def _look_at(
        self,
        of: NewOperation | Operation,
        statuses: tuple[str, ...],
        last: str | None,
        began: "datetime | None",
        scan: int,
        limit: int,
    ) -> Sequence[Record]:
        behind: dict[str, Any] = {"up_to": pages.behind(last), "began": began, "limit": limit}
        if of.jobs:
            return await self._fetch("operations/look_at_chosen", statuses=statuses, jobs=of.jobs, **behind)
        columns = pages.columns_of_group(of.where)
        group = columns.pop("error_group")
        shared = {name: columns[name] for name in pages.SHARED} | behind | {"scan": scan}
        if of.kind is OperationKind.CANCEL:
            return await self._fetch("operations/look_at_active", statuses=statuses, **shared)
        if _is_by_group(of):
            return await self._fetch("operations/look_at_error_group", statuses=statuses, error_group=group, **shared)
        return await self._fetch("operations/look_at_ended", status=statuses[0], **shared)


def _is_by_group(of: NewOperation | Operation) -> bool:
    return of.where.error_group is not None and not of.jobs and of.kind is not OperationKind.CANCEL


class _Batch(_Looker):
    """The verbs of a batch, in its transaction."""

    async def look(self, operation: Operation, scan: int, limit: int) -> Looked:
        return await self.find(operation, operation.place, operation.as_of or operation.created_at, scan, limit)

    async def get(self, job: JobId) -> JobRecord | None:
        found = await self._fetch("tenant/get", jobs=[job_id(job)])
        return rows.job(found[0]) if found else None

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        jobs = sorted(seen)
        found = await self._fetch("tenant/retry", jobs=jobs, attempts=[seen[job] for job in jobs])
        answers = {JobId(str(row["id"])): RetryAnswer(row["answer"]) for row in found}
        return {job: answers.get(job, RetryAnswer.UNKNOWN) for job in jobs}

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        found = await self._fetch("tenant/cancel", jobs=sorted(jobs))
        answers = {JobId(str(row["id"])): CancelAnswer(row["answer"]) for row in found}
        return {job: answers.get(job, CancelAnswer.UNKNOWN) for job in jobs}

    async def remove(self, operation: Operation) -> Removed:
        if operation.place is None:
            await self._note_horizon(operation)
        await self._fetch("operations/stop_triggers", limit=REMOVED_AT_ONCE)
        (stopped,) = await self._fetch("operations/stop_running", limit=REMOVED_AT_ONCE)
        removed = Counter({"abandoned_jobs": int(stopped["gone"])} if stopped["gone"] else {})
        for name, statement in REMOVED.items():
            ((count, *_),) = await self._fetch(statement, limit=REMOVED_AT_ONCE)
            if count:
                removed[name] += count
            if count == REMOVED_AT_ONCE:
                return Removed(removed, over=False)
        if stopped["count"]:
            return Removed(removed, over=False, waits=f"{stopped['count']} running jobs were asked to stop")
        if removed:
            return Removed(removed, over=False)
        if await self._fetch("operations/remove_tenant", operation=operation.id):
            return Removed({"tenant": 1}, over=True)
        return Removed({}, over=False, waits="transactions that began before the removal may still write for it")

    async def _note_horizon(self, operation: Operation) -> None:
        await self._database.fetch_planned_on(self._connection, "operations/note_horizon", operation=operation.id)


def operation(row: Record) -> Operation:
    return Operation(
        id=OperationId(str(row["id"])),
        kind=OperationKind(row["kind"]),
        tenant=TenantId(row["tenant_id"]),
        state=OperationState(row["state"]),
        **read_selection(orjson.loads(row["job_filter"])),
        pace=None if row["pace"] is None else Pace(row["pace"]),
        canary=row["canary"],
        canary_job=None if row["canary_job"] is None else JobId(str(row["canary_job"])),
        place=row["place"],
        total=row["total"],
        total_is_cap=row["total_is_cap"],
        done=row["done"],
        skipped=row["skipped"],
        refused=row["refused"],
        details=orjson.loads(row["details"]),
        error=row["error"],
        created_by=row["created_by"],
        reason=row["reason"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        due_at=row["due_at"],
    )


def _before(cursor: str | None) -> UUID:
    try:
        return pages.GREATEST_ID if cursor is None else UUID(cursor)
    except ValueError as error:
        raise InvalidInput(
            f"{cursor!r} is not a cursor of this listing.",
            fix="Nothing was read. Pass the `next` of the page before.",
        ) from error

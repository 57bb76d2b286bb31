"""Rows to the facts that explain why a job does not run."""

from collections.abc import Sequence

from asyncpg import Record

from leasehold.engines.postgres import rows
from leasehold.model.facts import JobFacts, LaneState, LastWorker, LimitHolder, LockHolder, ScopeState, WorkerState
from leasehold.model.job import JobId, TenantId, WorkerId
from leasehold.model.limits import Scope, ScopeKind


def lane(row: Record, definition: str, tenant: TenantId) -> LaneState:
    scopes = (Scope.of_row(ScopeKind.DEFINITION, definition), Scope.of_row(ScopeKind.TENANT, tenant))
    states = tuple(_scope_state(row, scope) for scope in scopes)
    return LaneState(row["active"], row["workers"], states, row["elsewhere"], row["known"])


def _scope_state(row: Record, scope: Scope) -> ScopeState:
    kind = scope.kind
    why, since = row[f"{kind}_pause"], row[f"{kind}_oldest_since"]
    oldest = row[f"{kind}_oldest"]
    return ScopeState(
        scope,
        paused_because=why,
        paused_since=None if why is None else row[f"{kind}_paused_since"],
        paused_until=None if why is None else row[f"{kind}_paused_until"],
        paused_by=None if why is None else row[f"{kind}_paused_by"],
        max_running=row[f"{kind}_cap"],
        running=row[f"{kind}_running"],
        oldest=None if since is None else LimitHolder(None if oldest is None else JobId(str(oldest)), since),
    )


def worker(row: Record) -> WorkerState:
    return WorkerState(
        id=WorkerId(str(row["id"])),
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
        slots=row["slots"],
        definitions=rows.names(row["definitions"]),
        serves_definition=row["serves_definition"],
        serves_tenant=row["serves_tenant"],
        alive=row["alive"],
        last_seen_at=row["last_seen_at"],
        lease_expires_at=row["lease_expires_at"],
        running=row["running"],
        listens=row["listens"],
    )


def last_worker(row: Record) -> LastWorker:
    name = None if row["host"] is None else f"{row['host']}:{row['pid']}"
    return LastWorker(WorkerId(str(row["worker_id"])), name, row["finished_at"])


def facts(
    row: Record, lane: LaneState, workers: Sequence[WorkerState], last_worker: LastWorker | None = None
) -> JobFacts:
    return JobFacts(
        now=row["now"],
        job=rows.job(row),
        lane=lane,
        workers=workers,
        ahead=row["ahead"],
        locked_by=_lock_holder(row) if row["locked"] else None,
        version_known=row["version_known"],
        last_worker=last_worker,
        key_holder=None if row["key_holder"] is None else JobId(str(row["key_holder"])),
    )


def _lock_holder(row: Record) -> LockHolder:
    """A prepared transaction has no process. A role without pg_read_all_stats sees the process, and no more."""
    if row["lock_pid"] is None:
        return LockHolder("a prepared transaction")
    return LockHolder(
        f"process {row['lock_pid']}", row["lock_application"] or None, row["lock_state"], row["lock_since"]
    )

"""Facts about one job that nothing holds, to be changed by tests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.model.explain import explain
from leasehold.model.explanation import Check, CheckState
from leasehold.model.facts import JobFacts, LaneState, ScopeState, WorkerState
from leasehold.model.job import JobId, JobRecord, Source, TenantId, WorkerId
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.status import Status

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ID = JobId("01890a5d-ac96-774b-bcce-b302099a8057")


def sample_job(**changes: Any) -> JobRecord:
    job = JobRecord(
        id=ID,
        tenant=TenantId("acme"),
        definition="sync",
        version=1,
        status=Status.QUEUED,
        due=True,
        priority=100,
        payload={},
        attempt=0,
        max_attempts=5,
        free_attempts=0,
        scheduled_for=NOON,
        queued_at=NOON,
        started_at=None,
        finished_at=None,
        deadline=None,
        worker=None,
        lease_expires_at=None,
        cancel_requested_at=None,
        result=None,
        last_error=None,
        last_error_code=None,
        dedupe_key=None,
        source=Source.MANUAL,
        source_ref=None,
        correlation_id=None,
        created_by=None,
    )
    return replace(job, **changes)


def sample_worker(**changes: Any) -> WorkerState:
    worker = WorkerState(
        id=WorkerId("01890a5d-ac96-774b-bcce-b30209900000"),
        host="host-1",
        pid=7,
        version="1",
        slots=4,
        definitions=("sync",),
        serves_definition=True,
        serves_tenant=True,
        alive=True,
        last_seen_at=NOON,
        lease_expires_at=NOON + MINUTE,
        running=1,
        listens=True,
    )
    return replace(worker, **changes)


def sample_scope(kind: str, **changes: Any) -> ScopeState:
    key = "sync" if kind == "definition" else "acme"
    return ScopeState(Scope(ScopeKind(kind), key), **changes)


def sample_lane(**changes: Any) -> LaneState:
    lane = LaneState(True, 1, (sample_scope("definition"), sample_scope("tenant")))
    return replace(lane, **changes)


def sample_facts(**changes: Any) -> JobFacts:
    return replace(JobFacts(NOON + MINUTE, sample_job(), sample_lane(), (sample_worker(),)), **changes)


def check_of(name: str, facts: JobFacts, skew: timedelta | None = timedelta()) -> Check:
    (check,) = (check for check in explain(facts, skew).checks if check.name == name)
    return check


def states_of(facts: JobFacts, skew: timedelta | None = timedelta()) -> dict[str, CheckState]:
    return {check.name: check.state for check in explain(facts, skew).checks}

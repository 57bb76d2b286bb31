"""A job as the store returns it, for tests that need no store."""

from datetime import UTC, datetime
from typing import Any

from leasehold.model.job import JobId, JobRecord, Source, TenantId
from leasehold.model.status import Status

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def job_record(**changes: Any) -> JobRecord:
    """A report of the tenant acme that waits for its first try, apart from the changes."""
    fields: dict[str, Any] = {
        "id": JobId("01890a5d-ac96-774b-bcce-b302099a8057"),
        "tenant": TenantId("acme"),
        "definition": "report",
        "version": 1,
        "status": Status.QUEUED,
        "due": True,
        "priority": 100,
        "payload": {},
        "attempt": 0,
        "max_attempts": 5,
        "free_attempts": 0,
        "scheduled_for": NOON,
        "queued_at": NOON,
        "started_at": None,
        "finished_at": None,
        "deadline": None,
        "worker": None,
        "lease_expires_at": None,
        "cancel_requested_at": None,
        "result": None,
        "last_error": None,
        "last_error_code": None,
        "dedupe_key": None,
        "source": Source.MANUAL,
        "source_ref": None,
        "correlation_id": None,
        "created_by": None,
    }
    return JobRecord(**fields | changes)

"""Events of a job, and how they are shown."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from leasehold.cli.dev_events import DevEvent, JobQueued
from leasehold.cli.dev_lines import Lines
from leasehold.model.job import JobId, Source, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.telemetry import (
    JobEnded,
    JobStarted,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
JOB = JobId("0195abcd-0000-7000-8000-00006f46a1d8")
ACME = TenantId("acme")
ABOUT: dict[str, Any] = {
    "at": NOON,
    "worker": WorkerId("a worker"),
    "tenant": ACME,
    "job": JOB,
    "definition": "sync",
    "attempt": 1,
    "tries": 1,
    "max_attempts": 5,
}
QUEUED = JobQueued(
    at=NOON,
    tenant=ACME,
    job=JOB,
    definition="sync",
    state=DisplayState.READY,
    due_in=0,
    source=Source.MANUAL,
    created_by=None,
)
STARTED = JobStarted(**ABOUT, queued_at=NOON, waited=0.009)
ENDED = JobEnded(
    **ABOUT,
    status=Status.SUCCEEDED,
    attempt_status=AttemptStatus.SUCCEEDED,
    seconds=0.8,
    error=None,
    error_code=None,
    retry_in=None,
)
FAILED = replace(
    ENDED,
    status=Status.QUEUED,
    attempt_status=AttemptStatus.FAILED,
    error="no row",
    error_code="KeyError",
    retry_in=30,
)


def shown(event: DevEvent, width: int = 100) -> str:
    """Without its time of day, which depends on where we are."""
    line = Lines(width).of(event)
    assert line is not None
    assert re.match(r"\d\d:\d\d:\d\d ", line.plain)
    return line.plain[9:]

"""Views show no secrets: neither encrypted values, nor values of the environment, nor fields by name."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from leasehold.config import process_redactor
from leasehold.errors import InvalidInput
from leasehold.model.job import Attempt, JobId, JobRecord, LogLine, Source, TenantId
from leasehold.model.status import AttemptStatus, Status
from leasehold.operations import views

SECRET = "t0k3n-of-the-environment"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def of_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ACME_TOKEN", SECRET)
    process_redactor.cache_clear()
    yield
    process_redactor.cache_clear()


def record(**changes: Any) -> JobRecord:
    job = JobRecord(
        id=JobId("01890a5d-ac96-774b-bcce-b302099a8057"),
        tenant=TenantId("acme"),
        definition="sync",
        version=1,
        status=Status.FAILED,
        due=True,
        priority=100,
        payload={},
        attempt=1,
        max_attempts=5,
        free_attempts=0,
        scheduled_for=NOON,
        queued_at=NOON,
        started_at=NOON,
        finished_at=NOON,
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


def test_encrypted_fields_of_a_payload_are_hidden() -> None:
    shown = views.job(record(payload={"path": "/", "token": {"$secret": "v1.abc.def"}}))
    assert shown["payload"] == {"path": "/", "token": "[secret]"}
    assert views.payload(record(payload={"where": {"$secret": "v1.abc.def"}})) == {"where": "[secret]"}


def test_payloads_and_results_are_redacted_by_name_and_value() -> None:
    document = {"api_key": "abc", "note": f"it is {SECRET}", "count": 3}
    redacted = {"api_key": "[redacted]", "note": "it is [redacted]", "count": 3}
    shown = views.job(record(payload=document, result=document))
    assert (shown["payload"], shown["result"]) == (redacted, redacted)


def test_errors_of_jobs_and_attempts_are_redacted() -> None:
    text = f"refused: {SECRET}"
    assert views.job(record(last_error=text))["last_error"] == "refused: [redacted]"
    assert views.error_of("E", text) == "E: refused: [redacted]"
    attempt = Attempt(1, AttemptStatus.FAILED, None, NOON, NOON, text, "E", details={"traceback": text})
    shown = views.attempt(attempt, 1)
    assert (shown["error"], shown["details"]) == ("refused: [redacted]", {"traceback": "refused: [redacted]"})
    raised = InvalidInput(text, fix="Correct it.")
    assert views.error(raised)["error"]["message"] == "refused: [redacted]"


def test_log_lines_are_redacted() -> None:
    assert views.line(1, 1, LogLine(1, f"sent {SECRET}"))["text"] == "sent [redacted]"

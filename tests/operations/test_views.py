"""Views show no secrets: neither encrypted values, nor values of the environment, nor fields by name."""

from collections.abc import Iterator

import pytest
from tests.job_records import NOON, job_record

from leasehold.config import process_redactor
from leasehold.errors import InvalidInput
from leasehold.model.job import Attempt, LogLine, TenantId
from leasehold.model.status import AttemptStatus
from leasehold.model.trigger import NewTrigger, Origin, Trigger, TriggerId
from leasehold.operations import views
from leasehold.store import TriggerChange

SECRET = "t0k3n-of-the-environment"


@pytest.fixture(autouse=True)
def of_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ACME_TOKEN", SECRET)
    process_redactor.cache_clear()
    yield
    process_redactor.cache_clear()


def test_encrypted_fields_of_a_payload_are_hidden() -> None:
    shown = views.job(job_record(payload={"path": "/", "token": {"$secret": "v1.abc.def"}}))
    assert shown["payload"] == {"path": "/", "token": "[secret]"}
    assert views.payload(job_record(payload={"where": {"$secret": "v1.abc.def"}})) == {"where": "[secret]"}


def test_payloads_and_results_are_redacted_by_name_and_value() -> None:
    document = {"api_key": "abc", "note": f"it is {SECRET}", "count": 3}
    redacted = {"api_key": "[redacted]", "note": "it is [redacted]", "count": 3}
    shown = views.job(job_record(payload=document, result=document))
    assert (shown["payload"], shown["result"]) == (redacted, redacted)


def test_errors_of_jobs_and_attempts_are_redacted() -> None:
    text = f"refused: {SECRET}"
    assert views.job(job_record(last_error=text))["last_error"] == "refused: [redacted]"
    assert views.error_of("E", text) == "E: refused: [redacted]"
    attempt = Attempt(1, AttemptStatus.FAILED, None, NOON, NOON, text, "E", details={"traceback": text})
    shown = views.attempt(attempt, 1)
    assert (shown["error"], shown["details"]) == ("refused: [redacted]", {"traceback": "refused: [redacted]"})
    raised = InvalidInput(text, fix="Correct it.")
    assert views.error(raised)["error"]["message"] == "refused: [redacted]"


def test_log_lines_are_redacted() -> None:
    assert views.line(1, 1, LogLine(1, f"sent {SECRET}"))["text"] == "sent [redacted]"


def test_templates_of_triggers_are_redacted() -> None:
    template = {"api_key": "abc", "note": f"it is {SECRET}", "path": "{{event.path}}"}
    redacted = {"api_key": "[redacted]", "note": "it is [redacted]", "path": "{{event.path}}"}
    rule = NewTrigger(label="Resync", event="folder.updated", definition="sync", payload=template)
    stored = Trigger(
        id=TriggerId("01890a5d"),
        tenant=TenantId("acme"),
        rule=rule,
        origin=Origin.DATA,
        version=1,
        created_by="ann",
        created_at=NOON,
        updated_at=NOON,
    )
    shown = views.trigger(stored)
    assert shown["payload"] == redacted
    changed = TriggerChange(TriggerId("01890a5d"), TenantId("acme"), "Resync", 2, {"payload": ({}, template)})
    assert views.trigger_change(changed)["fields"] == {"payload": [{}, redacted]}

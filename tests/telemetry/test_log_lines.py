"""Log lines of events: names, levels and fields, by structlog and by the quick way."""

import io
import json
import logging
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.model.claims import a_claim

from leasehold.model.job import WorkerId
from leasehold.model.outcome import (
    SUCCEEDED,
    Canceled,
    Outcome,
    Raised,
    Snoozed,
    Succeeded,
    Trace,
    decide,
)
from leasehold.model.status import Status
from leasehold.telemetry import DatabaseLost, JobReclaimed, WorkerListening
from leasehold.telemetry.listeners import AttemptEnd
from leasehold.telemetry.log_lines import Line, line_of_claim, line_of_end, line_of_event
from leasehold.telemetry.logs import EventLogs, JsonLines

NOW = datetime(2026, 11, 18, tzinfo=UTC)
CLAIM = a_claim(payload='{"item_id": 7}')
OF_JOB = {"job_id", "tenant_id", "definition_key", "attempt_no", "worker_id", "item_id", "attempt"}


def end_of(outcome: Outcome) -> AttemptEnd:
    return CLAIM, decide(outcome, CLAIM, 0.0), 0.0123456, outcome


def same(text: str) -> str:
    return text


class Logger:
    """Stands for a bound logger of structlog."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def log(self, level: int, name: str, **fields: Any) -> None:
        self.lines.append((level, name, fields))


def test_a_claim_has_the_fields_of_the_seeds() -> None:
    level, name, fields = line_of_claim(CLAIM)
    assert (level, name) == (logging.INFO, "job_claimed")
    assert fields == {
        "job_id": CLAIM.job,
        "tenant_id": CLAIM.tenant,
        "definition_key": CLAIM.definition.key,
        "attempt_no": CLAIM.attempt,
        "worker_id": CLAIM.worker,
        "item_id": 7,
        "attempt": CLAIM.attempt,
    }


def test_a_success_adds_its_duration() -> None:
    level, name, fields = line_of_end(end_of(Succeeded()))
    assert (level, name, set(fields)) == (logging.INFO, "job_completed", OF_JOB | {"duration_ms"})
    assert fields["duration_ms"] == 12.346


def test_a_failure_adds_its_error_and_whether_it_is_tried_again() -> None:
    raised = Raised("ValueError", "no such row", trace=Trace("app.py:14 in fetch", ""))
    level, name, fields = line_of_end(end_of(raised))
    assert (level, name) == (logging.WARNING, "job_failed")
    assert (fields["error_code"], fields["will_retry"], fields["error"]) == ("ValueError", True, "no such row")
    assert (fields["where"], fields["status"]) == ("app.py:14 in fetch", "queued")
    level, name, fields = line_of_end(end_of(Raised("Fail", "never", final=True)))
    assert (level, name, fields["will_retry"], fields["retry_in_ms"]) == (logging.ERROR, "job_failed", False, None)


def test_snoozes_and_cancels_are_neither_failures_nor_successes() -> None:
    assert line_of_end(end_of(Snoozed(timedelta(seconds=5))))[1] == "job_snoozed"
    assert line_of_end(end_of(Canceled()))[1] == "job_canceled"


@pytest.mark.parametrize(
    ("payload", "item"),
    [
        ('{"item_id": "i-1"}', "i-1"),
        ('{"item_id": 2.5}', 2.5),
        ('{"item_id": [1]}', None),
        ('{"nested": {"item_id": 1}}', None),
        ('["item_id"]', None),
        ('{"item_id": ', None),
        ("{}", None),
    ],
)
def test_the_item_is_a_scalar_of_the_payload_or_null(payload: str, item: object) -> None:
    assert line_of_claim(a_claim(payload=payload))[2]["item_id"] == item


def test_other_events_become_lines_with_the_same_names_of_fields() -> None:
    lost = DatabaseLost(at=NOW, worker=WorkerId("w"), error="refused")
    assert line_of_event(lost) == (logging.WARNING, "database_lost", {"worker_id": "w", "error": "refused"})
    deaf = WorkerListening(at=NOW, worker=WorkerId("w"), listens=False)
    assert line_of_event(deaf) == (logging.WARNING, "worker_listening", {"worker_id": "w", "listens": False})


def test_the_quick_lines_are_those_of_structlog() -> None:
    """Texts with quotes, tenants that repeat, and items of all kinds."""
    claims = [
        a_claim(worker=WorkerId("another"), attempt=3),
        a_claim(tenant='a"c\\me', payload='{"item_id": "ü\\n"}'),
        a_claim(tenant='a"c\\me', payload='{"item_id": false}', job="0197c000-0000-7000-8000-000000000002"),
        a_claim(payload="{}", attempt=3),
    ]
    slow, stream = Logger(), io.BytesIO()
    quick = JsonLines(slow, stream, same)
    ends: list[AttemptEnd] = [(claim, SUCCEEDED, 0.25, Succeeded()) for claim in claims]
    quick.on_claims(claims)
    quick.on_ends(ends)
    assert slow.lines == []
    EventLogs(slow).on_claims(claims)
    EventLogs(slow).on_ends(ends)
    read = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {(line.pop("level"), line.pop("timestamp")[-1]) for line in read} == {("info", "Z")}
    assert read == [{"event": name, **fields} for _, name, fields in slow.lines]


def test_the_quick_lines_leave_ends_that_are_no_plain_success_to_structlog() -> None:
    slow, stream = Logger(), io.BytesIO()
    JsonLines(slow, stream, same).on_ends([end_of(Raised("E", "no")), end_of(Succeeded())])
    assert [name for _, name, _ in slow.lines] == ["job_failed"]
    assert len(stream.getvalue().splitlines()) == 1


def test_the_quick_lines_keep_no_claim_that_has_not_ended() -> None:
    """A claim that is given back or discarded has no end; its payload may have 256 KB."""
    quick = JsonLines(Logger(), io.BytesIO(), same)
    claims = [a_claim(payload='{"item_id": 7}'), a_claim(payload=f'{{"item_id": "{1000 * "x"}"}}', attempt=2)]
    before = [sys.getrefcount(claim) for claim in claims]
    quick.on_claims(claims)
    assert [sys.getrefcount(claim) for claim in claims] == before


def test_the_quick_lines_remember_so_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.telemetry.logs.MOST_REMEMBERED", 3)
    stream, redacted = io.BytesIO(), list[str]()

    def note(text: str) -> str:
        redacted.append(text)
        return text

    quick = JsonLines(Logger(), stream, note)
    tenants = [f"t{number}" for number in (0, 0, 1, 2, 3, 0)]
    quick.on_claims([a_claim(tenant=tenant, attempt=number) for number, tenant in enumerate(tenants, 1)])
    read = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["tenant_id"], line["attempt"]) for line in read] == list(zip(tenants, range(1, 7), strict=True))
    assert [text for text in redacted if text != CLAIM.definition.key] == ["t0", "t1", "t2", "t3", "t0"]
    assert max(map(len, (quick._tenants, quick._keys, quick._tries))) == 3


def test_the_quick_lines_have_the_time_with_six_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    monkeypatch.setattr("leasehold.telemetry.logs.time_ns", lambda: 1_763_495_999_000_001_999)
    JsonLines(Logger(), stream, same).on_claims([CLAIM])
    assert json.loads(stream.getvalue())["timestamp"] == "2025-11-18T19:59:59.000001Z"


def test_a_success_whose_time_is_unknown_is_left_to_structlog() -> None:
    slow, stream = Logger(), io.BytesIO()
    JsonLines(slow, stream, same).on_ends([(CLAIM, SUCCEEDED, None, Succeeded())])
    assert [name for _, name, _ in slow.lines] == ["job_completed"]
    assert stream.getvalue() == b""


def test_the_quick_lines_of_two_tenants_with_one_id_differ() -> None:
    stream = io.BytesIO()
    quick = JsonLines(Logger(), stream, same)
    claims = [a_claim(tenant=tenant) for tenant in ("acme", "globex")]
    quick.on_claims(claims)
    quick.on_ends([(claim, SUCCEEDED, 0.25, Succeeded()) for claim in claims])
    tenants = [json.loads(line)["tenant_id"] for line in stream.getvalue().splitlines()]
    assert tenants == ["acme", "globex"] * 2


def test_the_quick_lines_are_redacted() -> None:
    stream = io.BytesIO()
    hide = JsonLines(Logger(), stream, lambda text: text.replace("hunter2", "•••"))
    hide.on_claims([a_claim(tenant="hunter2", payload='{"item_id": "hunter2"}')])
    line = json.loads(stream.getvalue())
    assert (line["tenant_id"], line["item_id"]) == ("•••", "•••")


def test_a_reclaimed_job_tells_whether_it_is_tried_again() -> None:
    reclaimed = JobReclaimed(
        at=NOW,
        worker=WorkerId("dead"),
        tenant=CLAIM.tenant,
        job=CLAIM.job,
        definition="report",
        attempt=2,
        tries=1,
        max_attempts=3,
        by=WorkerId("w"),
        status=Status.QUEUED,
        error="gone",
        error_code="lease_lost",
        retry_in=5.0,
    )
    level, name, fields = line_of_event(reclaimed)
    assert (level, name) == (logging.WARNING, "job_reclaimed")
    assert (fields["will_retry"], fields["error_code"], fields["attempt_no"], fields["status"]) == (
        *(True, "lease_lost", 2),
        "queued",
    )

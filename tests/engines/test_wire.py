"""The documents of workers over HTTP: what is written is read back, and what is wrong is refused by its field."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from tests.model.claims import a_claim

from leasehold.errors import InvalidInput
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition, OnExhausted, Retention
from leasehold.model.job import LineKind, LogLine, TenantId, WorkerId
from leasehold.store import Claimed, DueWork, Registration, Renewal, Subscription, Wake, WorkerFacts, wire

DEFINITION = Definition(
    "report",
    "About a month",
    {"type": "object", "properties": {"month": {"type": "integer"}}},
    timeout=timedelta(seconds=1.5),
    backoff=Steps(10, 20),
    retention=Retention("7d", None, "1h"),
    on_exhausted=OnExhausted.FAILED,
    durable_claims=True,
)
CLAIM = replace(a_claim(definition=DEFINITION, payload='{"n": 1.0}'), queued=1.25, correlation_id="r-1", overdue=True)
SERVES = Subscription(("report", "email"), (TenantId('a "b"'),))


def sent(document: Any) -> Any:
    """The document as it arrives."""
    return orjson.loads(orjson.dumps(document))


def test_a_definition_is_read_as_it_was_written() -> None:
    assert wire.read_definition(sent(wire.write_definition(DEFINITION))) == DEFINITION


def test_a_claim_is_read_with_all_that_running_needs() -> None:
    claimed = Claimed([CLAIM, replace(CLAIM, attempt=2)], True, timedelta(seconds=3))
    document = sent(wire.write_claimed(claimed))
    assert len(document["definitions"]) == 1
    read = wire.read_claimed(document, CLAIM.worker)
    assert (list(read.claims), read.more, read.next_due) == (claimed.claims, True, timedelta(seconds=3))
    for name in ("definition", "payload", "queued", "started", "correlation_id", "overdue", "max_attempts"):
        assert getattr(read.claims[0], name) == getattr(CLAIM, name), name


def test_a_stored_infinity_can_be_sent() -> None:
    document = sent(wire.write_claimed(Claimed([replace(CLAIM, queued=float("inf"))], False, None)))
    assert wire.read_claimed(document, CLAIM.worker).claims[0].queued_at.year == 9999


def test_a_join_and_its_registration_are_read_as_written() -> None:
    joined = SERVES, WorkerFacts("h", 7, "1.0", 3, {"zone": "b"}), timedelta(seconds=60)
    assert wire.read_join(sent(wire.write_join(*joined))) == joined
    registration = Registration(WorkerId("w"), SERVES)
    assert wire.read_registration(sent(wire.write_registration(registration))) == registration


def test_a_renewal_names_claims_by_their_places() -> None:
    held = [CLAIM, replace(CLAIM, attempt=2), replace(CLAIM, attempt=3)]
    fences = [wire.fence_of(claim) for claim in held]
    renewal = Renewal(True, frozenset(held[:1]), frozenset(held[1:2]), True, True, None, True)
    document = sent(wire.write_renewal(renewal, fences, frozenset(fences[2:])))
    assert (document["lost"], document["cancels"]) == ([0, 2], [1])
    read = wire.read_renewal(document, held)
    assert (set(read.lost), set(read.cancels), read.orphans) == ({held[0], held[2]}, {held[1]}, False)


def test_a_line_of_any_text_can_be_sent() -> None:
    document = sent(wire.write_line(CLAIM, LogLine(3, "a\0b\ud800", LineKind.STDERR, 1.5)))
    line = wire.read_line(document)
    assert (line.number, line.kind, line.progress) == (3, LineKind.STDERR, 1.0)
    assert "\0" not in line.text


@pytest.mark.parametrize("wake", [*Wake, DueWork("report", timedelta(seconds=5))])
def test_a_wake_is_read_as_it_was_written(wake: Wake | DueWork) -> None:
    assert wire.read_wake(sent(wire.write_wake(wake))) == wake


def test_a_due_time_is_nearer_after_a_wait() -> None:
    written = wire.write_wake(DueWork("report", timedelta(seconds=5)), timedelta(seconds=3))
    assert wire.read_wake(sent(written)) == DueWork("report", timedelta(seconds=2))


FENCE = {"tenant_id": "acme", "job_id": CLAIM.job, "attempt": 1, "batch": 1}
WRONG: list[tuple[Any, str]] = [
    ([], "an object is needed"),
    ({**FENCE, "tenant_id": " "}, "tenant_id"),
    ({**FENCE, "job_id": "x"}, "job_id"),
    ({**FENCE, "attempt": 0}, "attempt=0"),
    ({**FENCE, "attempt": True}, "not a whole number"),
    ({**FENCE, "batch": 2**60}, "batch"),
    ({"tenant_id": "acme", "job_id": CLAIM.job, "attempt": 1}, "batch is missing"),
]


@pytest.mark.parametrize(("document", "why"), WRONG)
def test_a_wrong_fence_is_refused_by_its_field(document: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        wire.read_fence(document)


@pytest.mark.parametrize(
    "fields", [{"status": "done"}, {"delay_seconds": -1}, {"delay_seconds": 1e18}, {"result": 1}]
)
def test_a_wrong_verdict_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(fields))):
        wire.read_verdict({"status": "succeeded", "attempt": "succeeded", **fields})

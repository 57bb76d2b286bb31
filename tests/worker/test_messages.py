"""Messages between a worker and the processes of its handlers."""

from datetime import timedelta
from typing import Any

import pytest

from leasehold.config import process_redactor
from leasehold.model.outcome import Outcome, Raised, Released, Snoozed, Succeeded, Trace
from leasehold.worker.messages import MessageReader, encode, outcome_as_message, outcome_of_message
from leasehold.worker.outcomes import redact_outcome

MESSAGES: list[dict[str, Any]] = [
    {"call": 1, "text": "ä\udc80\0"},
    {"call": 2, "moment": float("inf")},
    {"call": 3, "text": "x" * 100_000},
]


@pytest.mark.parametrize("step", [1, 3, 1000, 10**6])
def test_messages_are_read_however_the_stream_is_cut(step: int) -> None:
    stream = b"".join(encode(message) for message in MESSAGES)
    reader = MessageReader()
    pieces = (stream[place : place + step] for place in range(0, len(stream), step))
    assert [message for piece in pieces for message in reader.feed(piece)] == MESSAGES


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded(),
        Succeeded('{"a": [1, null]}'),
        Snoozed(timedelta(seconds=1.5)),
        Released(),
        Raised("ValueError", "broken"),
        Raised("RetryLater", "busy", timedelta(milliseconds=1)),
        Raised("Fail", "", final=True, trace=Trace("app.py:1 in fetch", "Traceback …")),
    ],
)
def test_an_outcome_passes_unchanged(outcome: Outcome) -> None:
    (message,) = MessageReader().feed(encode(outcome_as_message(outcome)))
    assert outcome_of_message(message) == outcome


def test_texts_of_a_process_are_redacted_by_the_worker() -> None:
    redactor = process_redactor().with_values("correct-horse")
    raised = Raised("ValueError", "no correct-horse", trace=Trace("app.py:1 in fetch", "… correct-horse …"))
    outcomes: list[Outcome] = [Succeeded('{"a": "correct-horse"}'), raised]
    assert not [each for each in outcomes if "correct-horse" in str(redact_outcome(each, redactor))]
    assert redact_outcome(Snoozed(timedelta(1)), redactor) == Snoozed(timedelta(1))

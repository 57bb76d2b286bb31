"""Verdicts from elsewhere: all that `decide` can return are accepted, and no others."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.claims import a_claim

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition, OnExhausted
from leasehold.model.job import Claim
from leasehold.model.outcome import (
    Canceled,
    LeaseLost,
    Outcome,
    Raised,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    Trace,
    Verdict,
    decide,
)
from leasehold.model.status import AttemptStatus, Status
from leasehold.model.verdict_rules import require_possible
from leasehold.store.wire import read_verdict, write_verdict

HOUR = timedelta(hours=1)
OUTCOMES: list[Outcome] = [
    *(Succeeded(), Succeeded('{"pages": 3}'), Canceled(), Released(), LeaseLost(), Snoozed(HOUR), TimedOut(HOUR)),
    *(Raised("X", "y"), Raised("X", "y", final=True), Raised("X", "y", HOUR, trace=Trace("a.py:1 in b", "…"))),
    Rejected("deadline", "passed"),
]


def claim(tries: int, on_exhausted: OnExhausted = OnExhausted.DEAD_LETTER) -> Claim:
    return a_claim(attempt=tries, max_attempts=3, definition=Definition("report", on_exhausted=on_exhausted))


@given(st.sampled_from(OUTCOMES), st.integers(1, 4), st.sampled_from(OnExhausted), st.floats(0, 0.99))
def test_every_verdict_that_decide_returns_is_possible(
    outcome: Outcome, tries: int, on_exhausted: OnExhausted, jitter: float
) -> None:
    held = claim(tries, on_exhausted)
    verdict = decide(outcome, held, jitter)
    require_possible(verdict, held)
    assert read_verdict(write_verdict(verdict)) == verdict


FAILED, CRASHED, SNOOZED = AttemptStatus.FAILED, AttemptStatus.CRASHED, AttemptStatus.SNOOZED
IMPOSSIBLE = {
    "a retry after the last try": (3, Verdict(Status.QUEUED, FAILED)),
    "a dead letter before the last try": (1, Verdict(Status.DEAD_LETTER, FAILED)),
    "a crash that fails the job": (1, Verdict(Status.FAILED, CRASHED)),
    "a success of a failed attempt": (1, Verdict(Status.SUCCEEDED, FAILED)),
    "an attempt that still runs": (1, Verdict(Status.QUEUED, AttemptStatus.RUNNING)),
    "a failure that uses no try": (1, Verdict(Status.QUEUED, FAILED, free_attempts=1)),
    "a snooze that uses a try": (1, Verdict(Status.QUEUED, SNOOZED)),
    "a snooze of centuries": (1, Verdict(Status.QUEUED, SNOOZED, timedelta(days=99_999), 1)),
    "a delay after the end": (1, Verdict(Status.FAILED, FAILED, HOUR)),
    "a result of a failure": (1, Verdict(Status.FAILED, FAILED, result="1")),
    "a result that is not JSON": (1, Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED, result="{")),
    "a huge result": (1, Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED, result=f'"{"x" * 600_000}"')),
    "an error of a success": (1, Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED, error="x")),
    "a huge error": (1, Verdict(Status.FAILED, FAILED, error="x" * 10_001)),
    "details that are a list": (1, Verdict(Status.FAILED, FAILED, details="[]")),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_verdict_that_decide_never_returns_is_refused(name: str) -> None:
    tries, verdict = IMPOSSIBLE[name]
    with pytest.raises(InvalidInput, match="can't be written"):
        require_possible(verdict, claim(tries))

"""The states of a job, the edges between them, and the words people use for them."""

import re
from datetime import timedelta
from itertools import product

import pytest
from tests.model.claims import a_claim

from leasehold.model import status as status_module
from leasehold.model.definition import Definition, OnExhausted
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
    decide,
)
from leasehold.model.status import (
    ACTIVE,
    FINAL,
    TRANSITIONS,
    AttemptStatus,
    DisplayState,
    Status,
    display_state,
    parse_status,
)

ALLOWED = {
    ("blocked", "queued"),
    ("blocked", "canceled"),
    ("queued", "running"),
    ("queued", "canceled"),
    ("running", "queued"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "dead_letter"),
    ("running", "canceled"),
    ("succeeded", "queued"),
    ("failed", "queued"),
    ("dead_letter", "queued"),
    ("canceled", "queued"),
}

OUTCOMES: tuple[Outcome, ...] = (
    Succeeded("1"),
    Raised("ValueError", "no"),
    Raised("ValueError", "no", retry_in=timedelta(seconds=7)),
    Raised("ValueError", "no", final=True),
    TimedOut(timedelta(seconds=3)),
    Canceled(),
    Snoozed(timedelta(minutes=1)),
    Released(),
    LeaseLost(),
    Rejected("deadline", "too late"),
)


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)), ids=str)
def test_a_job_moves_only_along_the_edges_of_the_diagram(before: Status, after: Status) -> None:
    assert (after in TRANSITIONS[before]) == ((before.value, after.value) in ALLOWED)


def test_every_status_has_its_row_in_the_table_of_transitions() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_the_final_states_are_the_four_ends_of_a_job() -> None:
    ends = {"succeeded", "failed", "canceled", "dead_letter"}
    assert {str(status) for status in FINAL} == ends
    assert {str(status) for status in Status if status.final} == ends


def test_a_status_is_either_active_or_final() -> None:
    assert set(Status) == ACTIVE | FINAL
    assert not ACTIVE & FINAL


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_final_state_is_left_only_by_a_manual_retry(status: Status) -> None:
    assert TRANSITIONS[status] == {Status.QUEUED}


@pytest.mark.parametrize("status", sorted(Status))
def test_only_a_queued_job_can_start_to_run(status: Status) -> None:
    assert (Status.RUNNING in TRANSITIONS[status]) == (status is Status.QUEUED)


def test_every_kind_of_outcome_is_among_the_examples() -> None:
    assert {type(outcome) for outcome in OUTCOMES} == set(Outcome.__args__)


@pytest.mark.parametrize("on_exhausted", list(OnExhausted), ids=str)
@pytest.mark.parametrize("attempt", [1, 2], ids=["attempts left", "attempts exhausted"])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_every_verdict_leads_along_an_edge_from_running(
    outcome: Outcome, attempt: int, on_exhausted: OnExhausted
) -> None:
    definition = Definition("send_mail", on_exhausted=on_exhausted)
    verdict = decide(outcome, a_claim(attempt=attempt, max_attempts=2, definition=definition), jitter=0.5)

    assert verdict.status in TRANSITIONS[Status.RUNNING]
    assert verdict.attempt is not AttemptStatus.RUNNING


@pytest.mark.parametrize("status", sorted(Status))
def test_the_diagram_in_the_docstring_names_every_status(status: Status) -> None:
    assert status_module.__doc__ is not None
    diagram = status_module.__doc__.split("Waiting for a retry")[0]
    assert re.search(rf"\b{status}\b", diagram)


@pytest.mark.parametrize(
    ("status", "due", "attempts", "shown"),
    [
        (Status.QUEUED, True, 0, "ready"),
        (Status.QUEUED, True, 1, "ready"),
        (Status.QUEUED, False, 0, "scheduled"),
        (Status.QUEUED, False, 1, "retrying"),
        (Status.QUEUED, False, 40, "retrying"),
    ],
)
def test_a_queued_job_is_shown_by_what_it_waits_for(status: Status, due: bool, attempts: int, shown: str) -> None:
    assert display_state(status, due=due, attempts=attempts) == shown


@pytest.mark.parametrize(("due", "attempts"), list(product([True, False], [0, 1, 7])))
@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (Status.BLOCKED, "blocked"),
        (Status.RUNNING, "running"),
        (Status.SUCCEEDED, "succeeded"),
        (Status.FAILED, "failed"),
        (Status.CANCELED, "canceled"),
        (Status.DEAD_LETTER, "dead letter"),
    ],
)
def test_any_other_job_is_shown_by_its_status_alone(status: Status, shown: str, due: bool, attempts: int) -> None:
    assert display_state(status, due=due, attempts=attempts) == shown


def test_every_display_state_can_be_reached() -> None:
    reached = {
        display_state(status, due=due, attempts=attempts)
        for status, due, attempts in product(Status, [True, False], [0, 1])
    }
    assert reached == set(DisplayState)


@pytest.mark.parametrize("status", sorted(Status))
def test_a_status_is_parsed_from_its_own_word(status: Status) -> None:
    assert parse_status(status.value) is status


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", Status.QUEUED),
        ("in_progress", Status.RUNNING),
        ("done", Status.SUCCEEDED),
        ("completed", Status.SUCCEEDED),
        ("success", Status.SUCCEEDED),
        ("cancelled", Status.CANCELED),
        ("PENDING", Status.QUEUED),
        ("IN_PROGRESS", Status.RUNNING),
        ("DONE", Status.SUCCEEDED),
        ("FAILED", Status.FAILED),
        (" queued\n", Status.QUEUED),
    ],
)
def test_the_spellings_of_other_queues_are_understood(word: str, status: Status) -> None:
    assert parse_status(word) is status


@pytest.mark.parametrize("word", ["pending", "in_progress", "done", "completed", "success", "cancelled"])
def test_the_spellings_of_other_queues_are_never_printed(word: str) -> None:
    assert word not in {str(status) for status in Status}
    assert word not in {str(state) for state in DisplayState}


@pytest.mark.parametrize("word", ["", "retrying", "scheduled", "ready", "snoozed", "timeout", "queue", "0", "none"])
def test_a_word_that_is_no_status_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is not a valid Status"):
        parse_status(word)

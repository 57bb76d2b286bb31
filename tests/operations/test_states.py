"""The states that people name."""

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.status import DisplayState, Status
from leasehold.operations.lookup import WAITING, as_filters, read_states

READY, SCHEDULED, RETRYING = DisplayState.READY, DisplayState.SCHEDULED, DisplayState.RETRYING


@pytest.mark.parametrize(
    ("word", "states"),
    [
        ("ready", {READY}),
        ("Dead-Letter", {DisplayState.DEAD_LETTER}),
        ("dead_letter", {DisplayState.DEAD_LETTER}),
        ("dead letter", {DisplayState.DEAD_LETTER}),
        ("queued", WAITING),
        ("pending", WAITING),
        ("in_progress", {DisplayState.RUNNING}),
        ("in-progress", {DisplayState.RUNNING}),
        ("done", {DisplayState.SUCCEEDED}),
        ("completed", {DisplayState.SUCCEEDED}),
        ("success", {DisplayState.SUCCEEDED}),
        ("cancelled", {DisplayState.CANCELED}),
    ],
)
def test_a_state_may_be_spelled_as_elsewhere(word: str, states: set[DisplayState]) -> None:
    assert read_states([word]) == states


def test_states_add_up() -> None:
    assert read_states(["ready", "running"]) == {READY, DisplayState.RUNNING}


def test_what_is_no_state_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"'runing' is not a state\. Did you mean \"running\"\? .* There are: "):
        read_states(["runing"])


QUEUED, FAILED, RUNNING = Status.QUEUED, DisplayState.FAILED, DisplayState.RUNNING


@pytest.mark.parametrize(
    ("states", "filters"),
    [
        (set(), [((), None, None)]),
        ({READY}, [((QUEUED,), True, None)]),
        ({SCHEDULED}, [((QUEUED,), False, False)]),
        ({RETRYING}, [((QUEUED,), False, True)]),
        ({SCHEDULED, RETRYING}, [((QUEUED,), False, None)]),
        (WAITING, [((QUEUED,), None, None)]),
        ({DisplayState.DEAD_LETTER}, [((Status.DEAD_LETTER,), None, None)]),
        ({READY, FAILED, RUNNING}, [((QUEUED, Status.FAILED, Status.RUNNING), True, None)]),
        (WAITING | {FAILED}, [((QUEUED, Status.FAILED), None, None)]),
        ({READY, RETRYING}, [((QUEUED,), True, None), ((QUEUED,), False, True)]),
        ({SCHEDULED, FAILED}, [((Status.FAILED,), None, None), ((QUEUED,), False, False)]),
        ({READY, SCHEDULED, FAILED}, [((QUEUED, Status.FAILED), True, None), ((QUEUED,), False, False)]),
    ],
)
def test_filters_leave_nothing_to_be_left_out_later(
    states: set[DisplayState], filters: list[tuple[tuple[Status, ...], bool | None, bool | None]]
) -> None:
    assert [(each.statuses, each.due, each.tried) for each in as_filters(frozenset(states))] == filters

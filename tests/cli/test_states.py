"""The states that people name."""

import pytest

from leasehold.cli.states import WAITING, as_filter, read_states
from leasehold.errors import InvalidInput
from leasehold.model.status import DisplayState, Status

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
    with pytest.raises(InvalidInput, match=r"'runing' is no state\. Did you mean \"running\"\? .* There are: "):
        read_states(["runing"])


@pytest.mark.parametrize(
    ("states", "statuses", "due", "tried"),
    [
        (set(), (), None, None),
        ({READY}, (Status.QUEUED,), True, None),
        ({SCHEDULED}, (Status.QUEUED,), False, False),
        ({RETRYING}, (Status.QUEUED,), False, True),
        ({SCHEDULED, RETRYING}, (Status.QUEUED,), False, None),
        ({READY, RETRYING}, (Status.QUEUED,), None, None),
        (WAITING, (Status.QUEUED,), None, None),
        ({READY, DisplayState.RUNNING}, (Status.QUEUED, Status.RUNNING), None, None),
        ({DisplayState.DEAD_LETTER}, (Status.DEAD_LETTER,), None, None),
    ],
)
def test_a_filter_is_as_narrow_as_it_can_be(
    states: set[DisplayState], statuses: tuple[Status, ...], due: bool | None, tried: bool | None
) -> None:
    where = as_filter(frozenset(states))
    assert (where.statuses, where.due, where.tried) == (statuses, due, tried)

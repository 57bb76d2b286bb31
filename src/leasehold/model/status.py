"""The states of a job and of an attempt, and the transitions between them.

                        claim
    enqueue ──▶ queued ───────▶ running ──┬──▶ succeeded ───┐
                 ▲ ▲ │             │      ├──▶ failed ──────┤
                 │ │ │             │      ├──▶ dead_letter ─┤
                 │ │ │ cancel      │      └──▶ canceled ────┤
                 │ │ └────────────────────────────▲         │
                 │ └───────────────┘                        │
                 │   error, timeout, crash,                 │
                 │   snooze, given back        manual retry │
                 └──────────────────────────────────────────┘

    blocked ──▶ queued when the jobs it waits for have ended; blocked ──▶ canceled by a cancel

Waiting for a retry is not a state: such a job is queued, due in the future, with attempts behind it.
"""

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """The state of a job as it is stored. People see its display state."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"

    @property
    def final(self) -> bool:
        return self._value_ in _FINAL_VALUES  # a text knows its hash; that of a member is computed, for 0.3 µs


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER})
_FINAL_VALUES = frozenset(status.value for status in FINAL)
ACTIVE = frozenset(Status) - FINAL

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.BLOCKED: frozenset({Status.QUEUED, Status.CANCELED}),
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELED}),
    Status.RUNNING: FINAL | {Status.QUEUED},
    Status.SUCCEEDED: frozenset({Status.QUEUED}),
    Status.FAILED: frozenset({Status.QUEUED}),
    Status.CANCELED: frozenset({Status.QUEUED}),
    Status.DEAD_LETTER: frozenset({Status.QUEUED}),
}

# Status words of other queues: accepted on input, never printed.
_OTHER_SPELLINGS = {
    "pending": Status.QUEUED,
    "in_progress": Status.RUNNING,
    "done": Status.SUCCEEDED,
    "completed": Status.SUCCEEDED,
    "success": Status.SUCCEEDED,
    "cancelled": Status.CANCELED,
}


def parse_status(word: str) -> Status:
    """Returns the status that the word names; raises ValueError if it names none."""
    spelled = word.strip().lower()
    return _OTHER_SPELLINGS.get(spelled) or Status(spelled)


class AttemptStatus(StrEnum):
    """The states of an attempt. `snoozed` (the handler waits) and `given_back` (the worker stopped) use no try."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"
    CRASHED = "crashed"
    SNOOZED = "snoozed"
    GIVEN_BACK = "given_back"


class DisplayState(StrEnum):
    """The state that people see: the status, and for a queued job whether and why it waits until it is due."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead letter"


def display_state(status: Status, *, due: bool, attempts: int) -> DisplayState:
    if status is Status.QUEUED:
        if due:
            return DisplayState.READY
        return DisplayState.RETRYING if attempts else DisplayState.SCHEDULED
    return DisplayState[status.name]

"""The states of a job and of an attempt, and the only ways from one to the next.

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
    """Where a job stands, as it is stored. What people see is its display state."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"

    @property
    def final(self) -> bool:
        return self in FINAL


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER})
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

# What the words of other queues mean here; accepted on input, never printed.
_OTHER_SPELLINGS = {
    "pending": Status.QUEUED,
    "in_progress": Status.RUNNING,
    "done": Status.SUCCEEDED,
    "completed": Status.SUCCEEDED,
    "success": Status.SUCCEEDED,
    "cancelled": Status.CANCELED,
}


def parse_status(word: str) -> Status:
    """Raises ValueError for a word that is no status in any spelling."""
    spelled = word.strip().lower()
    return _OTHER_SPELLINGS.get(spelled) or Status(spelled)


class AttemptStatus(StrEnum):
    """`snoozed` and `given_back` cost none of the job's tries: the handler asked to wait, or the worker stopped."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"
    CRASHED = "crashed"
    SNOOZED = "snoozed"
    GIVEN_BACK = "given_back"


class DisplayState(StrEnum):
    """What people see: the status, and for a queued job whether and why it waits for its time."""

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

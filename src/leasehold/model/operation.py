"""Operations: work on many jobs that is done batch by batch, at a pace, by any process that runs."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from leasehold.errors import InvalidInput
from leasehold.model.status import ACTIVE, FINAL, Status

OperationId = NewType("OperationId", str)

# Jobs of one batch, which is one transaction.
BATCH = 100
# Jobs that one batch looks at to find those that match: a rare match takes more batches, never a longer one.
LOOKED_AT = 2000
# Rows of one kind that one batch of a removal deletes.
REMOVED_AT_ONCE = 1000
# Seconds between two looks at a job that an operation waits for.
LOOK_AGAIN = 1.0
# Jobs that a plan counts.
COUNTED = 10_000
SAMPLE = 10

_PACE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*(s|m|h))?\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, None: 1}


class OperationKind(StrEnum):
    RETRY = "retry"
    CANCEL = "cancel"
    DELETE_TENANT = "delete_tenant"

    @property
    def statuses(self) -> frozenset[Status]:
        """Returns the statuses of the jobs that it can change."""
        if self is OperationKind.RETRY:
            return FINAL
        return ACTIVE if self is OperationKind.CANCEL else frozenset()

    @property
    def default_statuses(self) -> tuple[Status, ...]:
        """Returns the statuses that it means unless its filter names some."""
        if self is OperationKind.RETRY:
            return (Status.DEAD_LETTER, Status.FAILED)
        return tuple(sorted(self.statuses))


class OperationState(StrEnum):
    """`planned` waits for its first batch; `aborting` for the end of a batch that is under way."""

    PLANNED = "planned"
    RUNNING = "running"
    ABORTING = "aborting"
    ABORTED = "aborted"
    DONE = "done"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (OperationState.ABORTED, OperationState.DONE, OperationState.FAILED)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many jobs an operation changes in a second; a batch is what fits into one."""

    jobs_per_second: float

    def __post_init__(self) -> None:
        if not 1 / 3600 <= self.jobs_per_second <= 1_000_000:
            raise InvalidInput(
                f"A pace of {self.jobs_per_second:g} jobs a second can't be kept: it is 1/h at least.",
                fix="Nothing was changed. Write it like 50/s, 300/m or 1000/h.",
            )

    @property
    def batch(self) -> int:
        return max(1, min(BATCH, int(self.jobs_per_second)))

    def wait_after(self, jobs: int) -> float:
        """Returns how many seconds a batch of so many jobs lasts."""
        return jobs / self.jobs_per_second


def read_pace(text: str) -> Pace:
    """Reads a pace like 50/s, 300/m or 1000/h; a bare number is jobs a second. Raises InvalidInput."""
    match = _PACE.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"{text[:40]!r} is not a pace.", fix="Nothing was changed. Write it like 50/s, 300/m or 1000/h."
        )
    return Pace(float(match[1]) / _SECONDS[match[2]])

"""Why a job runs or does not run: one check for each condition of a claim. `explain` makes them of facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from leasehold.model.job import JobRecord

# Checks that delay the start of a job for a time that is not known.
_DELAYS = frozenset({"slots", "position", "wake"})


class CheckState(StrEnum):
    """The result of a check. `slow`: a claim takes the job all the same. `unknown`: the store can't tell."""

    OK = "ok"
    BLOCKING = "blocking"
    SLOW = "slow"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of a claim.

    name       which condition: "due", "tenant_limit", "worker" …
    text       the result as a phrase, like "its tenant is paused: unpaid"
    evidence   the values behind it, for programs
    details    more about it, for people
    fix        what to do about it; a command of the command line comes first
    starts_at  when the condition will hold, if that is known
    """

    name: str
    state: CheckState
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    fix: str | None = None
    starts_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job runs or does not run, at the moment `at` of the engine's clock. `checks` are in claim order."""

    job: JobRecord
    at: datetime
    checks: Sequence[Check]

    @property
    def blocking(self) -> Sequence[Check]:
        """The reasons why no claim takes the job now."""
        return [check for check in self.checks if check.state is CheckState.BLOCKING]

    @property
    def slow(self) -> Sequence[Check]:
        """The reasons why the job starts later than at once, or not as expected."""
        return [check for check in self.checks if check.state is CheckState.SLOW]

    @property
    def starts_at(self) -> datetime | None:
        """When the job should start if nothing changes; None if that is not known. `at` means: at once."""
        if any(check.starts_at is None for check in self.blocking) or any(c.name in _DELAYS for c in self.slow):
            return None
        return max((check.starts_at for check in self.blocking if check.starts_at), default=self.at)

    @property
    def summary(self) -> str:
        """The first blocking reason, or else what the job waits for."""
        for check in (*self.blocking, *self.slow):
            if check.name != "clock":  # which delays nothing
                return check.text
        return "nothing holds it: it starts as soon as a worker looks"

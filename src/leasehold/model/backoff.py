"""How long a failed job waits before its next attempt. A value: stored with the definition, compared by content."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

from leasehold.errors import InvalidInput

LONGEST = timedelta(days=3650)
"""No delay is longer: what is added to the clock must still be a date that every engine can store."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base` seconds after the first execution, `factor` times as long after each further one, at most `cap`.

    `jitter` is the share of the delay that chance may take away: 0 none, 1 "full jitter", anything down to zero.
    """

    base: float = 5
    factor: float = 2
    cap: float = 3600
    jitter: float = 1

    def __post_init__(self) -> None:
        # Written as what must hold, so that NaN, which compares as false, is refused too.
        in_range = 0 <= self.base <= self.cap <= LONGEST.total_seconds() and 0 <= self.jitter <= 1
        if not (in_range and 1 <= self.factor < inf):
            raise InvalidInput(
                f"{self} is not a backoff: it needs 0 <= base <= cap, a cap of at most {LONGEST.days} days, "
                "a finite factor >= 1 and jitter in 0..1.",
                fix="Nothing was changed. Correct the values.",
            )

    def delay(self, execution: int, luck: float) -> timedelta:
        """The wait after the `execution`-th run (from 1), with `luck` drawn from [0, 1) by the caller."""
        try:
            delay = min(self.cap, self.base * float(self.factor) ** (execution - 1))
        except OverflowError:  # 2.0 ** 1024; whatever grows that far has long reached its cap
            delay = self.cap if self.base else 0
        return timedelta(seconds=delay * (1 - self.jitter * luck))

    def as_json(self) -> dict[str, Any]:
        return {"base": self.base, "factor": self.factor, "cap": self.cap, "jitter": self.jitter}


@dataclass(frozen=True, slots=True, init=False)
class Steps:
    """The delays one after the other, in seconds; the last one repeats."""

    delays: tuple[float, ...]

    def __init__(self, *delays: float) -> None:
        if not delays or not all(0 <= delay <= LONGEST.total_seconds() for delay in delays):
            raise InvalidInput(
                f"Steps{delays} is not a backoff: it needs at least one delay, in seconds, "
                f"each from 0 to {LONGEST.days} days.",
                fix="Nothing was changed. Correct the values.",
            )
        object.__setattr__(self, "delays", delays)

    def delay(self, execution: int, luck: float) -> timedelta:
        return timedelta(seconds=self.delays[min(execution, len(self.delays)) - 1])

    def as_json(self) -> dict[str, Any]:
        return {"steps": list(self.delays)}


Backoff = Exponential | Steps


def backoff_from_json(stored: Mapping[str, Any]) -> Backoff:
    return Steps(*stored["steps"]) if "steps" in stored else Exponential(**stored)


@dataclass(frozen=True, slots=True)
class Preset:
    """A backoff with the number of executions that it was meant for."""

    backoff: Backoff
    max_attempts: int


DEFAULT = Preset(Exponential(), max_attempts=5)
COMMAND = Preset(Exponential(), max_attempts=3)

# Three queues that people move from, number by number; none of them had jitter.
OUTBOX = Preset(Steps(30, 300), max_attempts=3)
SCHEDULED = Preset(Exponential(base=60, cap=86_400, jitter=0), max_attempts=5)
SMALL_TEAM = Preset(Exponential(base=1, cap=60, jitter=0), max_attempts=5)

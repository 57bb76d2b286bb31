"""Backoffs: how long a failed job waits before its next try. Stored with the definition, compared by content."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.bounds import LONGEST
from leasehold.model.duration import Duration, seconds_of

MAX_FACTOR = 1e300
MAX_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Exponential:
    """Waits `base` after the first try, `factor` times as long after each further one, at most `cap`.

    `base` and `cap` are durations ("5s", a timedelta, seconds), kept as seconds.

    `jitter` is the share of the delay that chance may remove: 0 for none, 1 for "full jitter", down to no delay.
    """

    base: float = 5
    factor: float = 2
    cap: float = 3600
    jitter: float = 1

    def __init__(self, base: Duration = 5, factor: float = 2, cap: Duration = 3600, jitter: float = 1) -> None:
        for name, value in (
            ("base", seconds_of(base)),
            ("factor", factor),
            ("cap", seconds_of(cap)),
            ("jitter", jitter),
        ):
            object.__setattr__(self, name, value)
        # States the conditions that must hold, so that NaN, which compares as false, is refused too.
        numbers = all(map(_is_number, (self.base, self.factor, self.cap, self.jitter)))
        in_range = numbers and 0 <= self.base <= self.cap <= LONGEST.total_seconds() and 0 <= self.jitter <= 1
        if not (in_range and 1 <= self.factor <= MAX_FACTOR):
            raise InvalidInput(
                f"{_show(self)} is not a backoff: it needs durations with 0 <= base <= cap, a cap of at most "
                f"{LONGEST.days} days, a finite factor >= 1 and jitter in 0..1.",
                fix="Nothing was changed. Correct the values.",
            )
        if self.factor > 2**53:  # as it will be read back; JSON holds no larger whole number exactly
            object.__setattr__(self, "factor", float(self.factor))

    def delay(self, tries: int, jitter: float) -> timedelta:
        """Returns the wait after so many tries (from 1), with `jitter` drawn from [0, 1) by the caller."""
        try:
            delay = min(self.cap, self.base * float(self.factor) ** (tries - 1))
        except OverflowError:  # 2.0 ** 1024: a delay that large reached its cap long before
            delay = self.cap if self.base else 0
        return timedelta(seconds=delay * (1 - self.jitter * jitter))

    def as_json(self) -> dict[str, Any]:
        return {"base": self.base, "factor": self.factor, "cap": self.cap, "jitter": self.jitter}


@dataclass(frozen=True, slots=True, init=False)
class Steps:
    """Waits these durations, one after each try ("30s", a timedelta, seconds); the last one repeats."""

    delays: tuple[float, ...]

    def __init__(self, *delays: Duration) -> None:
        seconds = tuple(map(seconds_of, delays))
        if not 0 < len(delays) <= MAX_STEPS or not all(
            _is_number(delay) and 0 <= delay <= LONGEST.total_seconds() for delay in seconds
        ):
            raise InvalidInput(
                f"Steps{_show(delays)} is not a backoff: it needs at least one duration and at most {MAX_STEPS}, "
                f"each from 0 to {LONGEST.days} days.",
                fix="Nothing was changed. Correct the values.",
            )
        object.__setattr__(self, "delays", seconds)

    def delay(self, tries: int, jitter: float) -> timedelta:
        return timedelta(seconds=self.delays[min(tries, len(self.delays)) - 1])

    def as_json(self) -> dict[str, Any]:
        return {"steps": list(self.delays)}


Backoff = Exponential | Steps


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(values: object) -> str:
    """Returns the start of the repr; Python refuses to write a whole number of more than 4,300 digits."""
    try:
        return f"{values!r:.200}"
    except ValueError:
        return "a backoff with a number of thousands of digits"


def backoff_from_json(stored: Mapping[str, Any]) -> Backoff:
    return Steps(*stored["steps"]) if "steps" in stored else Exponential(**stored)


@dataclass(frozen=True, slots=True)
class Preset:
    """A backoff with the number of tries that it was meant for: `@app.job(backoff=OUTBOX)` sets both.

    OUTBOX      30 s, then 5 min: 3 tries
    SCHEDULED   1, 2, 4, 8 min: 5 tries
    SMALL_TEAM  1, 2, 4, 8 s, at most 60 s: 5 tries

    None of the three has jitter.
    """

    backoff: Backoff
    max_attempts: int


DEFAULT = Preset(Exponential(), max_attempts=5)
COMMAND = Preset(Exponential(), max_attempts=3)

# The numbers of three queues that users migrate from; none of them had jitter.
OUTBOX = Preset(Steps(30, 300), max_attempts=3)
SCHEDULED = Preset(Exponential(base=60, cap=86_400, jitter=0), max_attempts=5)
SMALL_TEAM = Preset(Exponential(base=1, cap=60, jitter=0), max_attempts=5)

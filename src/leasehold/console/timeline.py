"""The attempts of a job as bars over time. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from leasehold.model.duration import span
from leasehold.model.job import Attempt, JobRecord

# In percent: a try of milliseconds after a wait of days is still seen.
THINNEST = 0.6
MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Bar:
    """A try, or the wait before it. `begin` and `width` are in percent of the time that is shown."""

    begin: float
    width: float
    state: str
    label: str

    @property
    def end(self) -> float:
        return self.begin + self.width


@dataclass(frozen=True, slots=True)
class Timeline:
    since: datetime
    until: datetime
    is_over: bool
    bars: Sequence[Bar]
    is_cut: bool = False

    @property
    def summary(self) -> str:
        """The same as a sentence, for people who do not see it."""
        return "; ".join(bar.label for bar in self.bars)


def timeline_of(job: JobRecord, attempts: Sequence[Attempt], now: datetime) -> Timeline | None:
    """Returns the time from the first wait to the end, or to now; None for a job that has not begun.

    If there are many attempts, it begins with the 100th from the end.
    """
    if not attempts:
        return None
    is_cut, attempts = len(attempts) > MOST_ATTEMPTS, attempts[-MOST_ATTEMPTS:]
    since = attempts[0].started_at if is_cut else min(job.queued_at, attempts[0].started_at)
    until = max(each.finished_at or now for each in attempts)
    if not job.status.final:
        until = max(until, now)
    whole = max((until - since).total_seconds(), 0.001)

    def bar(begin: datetime, end: datetime, state: str, label: str) -> Bar:
        width = max((end - begin).total_seconds() / whole * 100, 0.0 if state == "wait" else THINNEST)
        place = min((begin - since).total_seconds() / whole * 100, 100 - width)
        return Bar(round(max(place, 0), 2), round(min(width, 100), 2), state, label)

    bars: list[Bar] = []
    last = since
    for attempt in attempts:
        if attempt.started_at - last > timedelta(milliseconds=1):
            waited = span(attempt.started_at - last)
            bars.append(bar(last, attempt.started_at, "wait", f"waited {waited}"))
        end = attempt.finished_at or now
        took = span(end - attempt.started_at)
        label = f"try {attempt.tries or attempt.number} {attempt.status.value.replace('_', ' ')}, {took}"
        bars.append(bar(attempt.started_at, end, attempt.status.value, label))
        last = max(last, end)
    return Timeline(since, until, job.status.final, bars, is_cut)

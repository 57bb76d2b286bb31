"""Sums up events of jobs that come faster than people read: 50,000 jobs made 150,000 lines."""

import asyncio
from collections import Counter
from collections.abc import Callable

from leasehold.cli.dev_events import DevEvent, DevMessage, JobChanged, JobQueued, JobsCounted, SingleJobEvent
from leasehold.cli.format import utc_now
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.operations.views import format_count
from leasehold.telemetry import JobDiscarded, JobEnded, JobGivenBack, JobLogged, JobReclaimed, JobStarted

SECOND = 1.0
MOST_LINES = 200
MOST_FAILURES = 10
MOST_DEFINITIONS = 5

Later = Callable[[float, Callable[[], None]], object]


class Bursts:
    """Shows up to 200 lines about jobs in a second, and counts the rest in one line for each second.

    While a burst lasts, only failures are still shown one by one, ten in a second. An event that is not about a job
    is always shown.
    """

    def __init__(self, show: Callable[[DevEvent], None], later: Later | None = None) -> None:
        self._show = show
        self._later = later
        self._room = MOST_LINES
        self._lines = self._failures = 0
        self._left_out: dict[str, Counter[str]] = {}
        self._explained = False

    def __call__(self, event: DevEvent) -> None:
        if not isinstance(event, SingleJobEvent):
            if isinstance(event, DevMessage):
                self._sum_up()
            self._show(event)
            return
        if not self._lines:
            self._call_later(SECOND, self._end_second)
        self._lines += 1
        if self._lines <= self._room:
            self._show(event)
        elif _is_failure(event) and self._failures < MOST_FAILURES:
            self._failures += 1
            self._show(event)
        else:
            self._left_out.setdefault(event.definition, Counter())[_outcome(event)] += 1

    def _end_second(self) -> None:
        self._sum_up()
        self._room = 0 if self._lines > MOST_LINES else MOST_LINES
        self._lines = self._failures = 0
        if not self._room:
            self._call_later(SECOND, self._end_burst_if_it_is_quiet)

    def _end_burst_if_it_is_quiet(self) -> None:
        if not self._lines:
            self._room = MOST_LINES

    def _sum_up(self) -> None:
        if not self._left_out:
            return
        lines = sum(counts.total() for counts in self._left_out.values())
        text = f"{format_count(lines, 'more line')}: {_summary(self._left_out)}"
        if not self._explained:
            self._explained = True
            text += f" (more than {MOST_LINES} lines a second are summed up; --json shows all)"
        self._left_out = {}
        self._show(JobsCounted(at=utc_now(), lines=lines, text=text))

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        later = self._later or asyncio.get_running_loop().call_later
        later(seconds, call)


def _summary(left_out: dict[str, Counter[str]]) -> str:
    """`report 812 queued, 3 failed · sync 5 queued`, the definitions with the most lines first."""
    largest = sorted(left_out, key=lambda definition: -left_out[definition].total())
    parts = [
        f"{definition} {', '.join(f'{count:,} {outcome}' for outcome, count in left_out[definition].items())}"
        for definition in largest[:MOST_DEFINITIONS]
    ]
    if rest := largest[MOST_DEFINITIONS:]:
        lines = sum(left_out[each].total() for each in rest)
        parts.append(f"{lines:,} of {format_count(len(rest), 'other definition')}")
    return " · ".join(parts)


def _is_failure(event: SingleJobEvent) -> bool:
    match event:
        case JobEnded():
            return event.error_code is not None
        case JobChanged():
            return event.state in (DisplayState.FAILED, DisplayState.DEAD_LETTER)
        case JobReclaimed() | JobDiscarded():
            return True
    return False


def _outcome(event: SingleJobEvent) -> str:
    match event:
        case JobQueued():
            return "queued"
        case JobStarted() | JobChanged(state=DisplayState.RUNNING):
            return "started"
        case JobLogged():
            return "logged"
        case JobGivenBack():
            return "given back"
        case JobDiscarded():
            return "discarded"
        case JobReclaimed():
            return "reclaimed"
        case JobEnded(status=Status.QUEUED, attempt_status=AttemptStatus.SNOOZED):
            return "snoozed"
        case JobEnded(status=Status.QUEUED):
            return "to be retried"
        case JobEnded():
            return DisplayState[event.status.name]
        case JobChanged():
            return event.state

"""The screen of `leasehold dev`: its own messages, the events of jobs, and the totals at its end."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic

from leasehold.cli.bursts import Bursts
from leasehold.cli.dev_events import DevEvent, DevMessage, EventFeed, Topic, WorkerKilled
from leasehold.cli.dev_lines import Lines, logfmt
from leasehold.cli.format import utc_now
from leasehold.cli.output import stdout
from leasehold.model.duration import span
from leasehold.model.job import JobRecord
from leasehold.model.status import Status
from leasehold.telemetry import Event, JobEnded, JobGivenBack, JobReclaimed

Display = Callable[[DevEvent], None]

_TOTALS = {
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.DEAD_LETTER: "dead letter",
    Status.CANCELED: "canceled",
    "job.given_back": "given back",
    "job.reclaimed": "reclaimed",
    "killed": "workers killed",
}


class DevScreen:
    """Shows what happens, and counts it. Calls `on_closed` when the reader of its output has ended."""

    def __init__(self, display: Display, on_closed: Callable[[], None]) -> None:
        self.feed = EventFeed()
        self._display = display
        self._on_closed = on_closed
        self._totals: Counter[str] = Counter()
        self._began = monotonic()
        self._failures: set[str] = set()

    def say(self, topic: Topic, text: str) -> None:
        self._show([DevMessage(at=utc_now(), topic=topic, text=text)])

    def say_failure(self, name: str, error: Exception) -> None:
        """Shows each error once, although the failed task is tried again and again."""
        text = f"{name} failed and is tried again: {type(error).__name__}: {error}"
        if text not in self._failures:
            self._failures.add(text)
            self.say(Topic.ENDED, text)

    def show_event(self, event: Event) -> None:
        """Shows an event of a worker."""
        match event:
            case JobEnded() if event.status.final:
                self._totals[event.status] += 1
            case JobReclaimed() | JobGivenBack():
                self._totals[event.event] += 1
        self._show(self.feed.read_event(event))

    def show_jobs(self, jobs: Iterable[JobRecord]) -> None:
        """Shows which of these jobs are new or have changed."""
        self._show(self.feed.read_jobs(jobs))

    def show_kill(self, pid: int, running: int) -> None:
        self._totals["killed"] += 1
        self._show([WorkerKilled(at=utc_now(), pid=pid, running=running)])

    def say_totals(self) -> None:
        parts = [f"{self._totals[key]:,} {word}" for key, word in _TOTALS.items() if self._totals[key]]
        took = span(timedelta(seconds=monotonic() - self._began))
        self.say(Topic.STOPPED, " · ".join([f"stopped after {took}", *parts]))

    def _show(self, events: Iterable[DevEvent]) -> None:
        try:
            for event in events:
                self._display(event)
        except BrokenPipeError:  # the reader of the pipe has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            self._on_closed()


def make_display(json: bool) -> Display:
    """Returns the way to show an event: as JSON, as logfmt in a pipe, or as a line for people."""
    if json:
        return lambda event: _print(event.as_json())
    if not stdout.is_terminal:
        return Bursts(lambda event: _print(logfmt(event)))
    lines = Lines(stdout.width)

    def show(event: DevEvent) -> None:
        if (line := lines.of(event)) is not None:
            stdout.print(line, soft_wrap=True)

    return Bursts(show)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

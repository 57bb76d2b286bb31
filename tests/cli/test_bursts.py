"""How event of jobs is summed up when it comes faster than people read."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from tests.cli.dev_samples import ENDED, FAILED, QUEUED, STARTED

from leasehold.cli.bursts import MOST_FAILURES, MOST_LINES, Bursts
from leasehold.cli.dev_events import DevEvent, DevMessage, JobsCounted, Topic

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STOPPED = DevMessage(at=NOON, topic=Topic.STOPPED, text="stopped")


class Terminal:
    """Records the shown lines, with a clock that tests move."""

    def __init__(self) -> None:
        self.shown: list[DevEvent] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._now, self._order = 0.0, count()
        self.tell = Bursts(self.shown.append, self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self._now + seconds, next(self._order), call))

    def pass_second(self) -> None:
        self._now += 1
        for timer in sorted(timer for timer in self._timers if timer[0] <= self._now):
            self._timers.remove(timer)
            timer[2]()

    @property
    def sums(self) -> list[str]:
        return [event.text for event in self.shown if isinstance(event, JobsCounted)]


def test_few_lines_are_shown_as_they_come() -> None:
    terminal = Terminal()
    for _ in range(3):
        for _ in range(MOST_LINES):
            terminal.tell(QUEUED)
        terminal.pass_second()
    assert terminal.shown == [QUEUED] * 3 * MOST_LINES


def test_a_burst_is_counted_by_definition_and_outcome() -> None:
    terminal = Terminal()
    for _ in range(MOST_LINES):
        terminal.tell(QUEUED)
    burst: list[DevEvent] = [QUEUED, QUEUED, QUEUED, STARTED, STARTED, ENDED, replace(ENDED, definition="report")]
    for event in burst:
        terminal.tell(event)
    assert terminal.sums == []
    terminal.pass_second()
    (text,) = terminal.sums
    assert text.startswith("7 more lines: sync 3 queued, 2 started, 1 succeeded · report 1 succeeded (")
    assert "--json shows all" in text


def test_while_a_burst_lasts_each_second_is_one_line() -> None:
    terminal = Terminal()
    for _ in range(3):
        for _ in range(2 * MOST_LINES):
            terminal.tell(ENDED)
        terminal.pass_second()
    assert len(terminal.shown) == MOST_LINES + 3
    assert terminal.sums[1:] == ["400 more lines: sync 400 succeeded"] * 2


def test_after_a_burst_lines_are_shown_again() -> None:
    terminal = Terminal()
    for _ in range(2 * MOST_LINES):
        terminal.tell(ENDED)
    for _ in range(2):
        terminal.pass_second()
    before = len(terminal.shown)
    terminal.tell(QUEUED)
    assert terminal.shown[before:] == [QUEUED]


def test_in_a_burst_failures_are_shown_up_to_a_bound() -> None:
    terminal = Terminal()
    for _ in range(MOST_LINES):
        terminal.tell(ENDED)
    for _ in range(MOST_FAILURES + 5):
        terminal.tell(FAILED)
    terminal.pass_second()
    assert terminal.shown.count(FAILED) == MOST_FAILURES
    assert terminal.sums[0].startswith("5 more lines: sync 5 to be retried")


def test_what_was_counted_is_told_before_the_end() -> None:
    terminal = Terminal()
    for _ in range(MOST_LINES + 1):
        terminal.tell(ENDED)
    terminal.tell(STOPPED)
    assert isinstance(terminal.shown[-2], JobsCounted)
    assert terminal.shown[-1] == STOPPED


def test_of_many_definitions_the_largest_are_named() -> None:
    terminal = Terminal()
    for _ in range(MOST_LINES):
        terminal.tell(ENDED)
    for number in range(1, 8):
        for _ in range(number):
            terminal.tell(replace(ENDED, definition=f"job{number}"))
    terminal.pass_second()
    assert "job7 7 succeeded · job6 6 succeeded" in terminal.sums[0]
    assert "3 of 2 other definitions" in terminal.sums[0]

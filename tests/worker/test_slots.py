"""Slots, prefetch and timeouts: which attempt begins when, and how many claims are held. Tests move the clock."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from leasehold.worker.claim_loop import ENOUGH_AT_ONCE, ClaimBudget
from leasehold.worker.starter import Slots
from leasehold.worker.timeouts import Timeouts

USUAL, URGENT, LATE = 100, 1, 200


class Entrant:
    def __init__(self, name: str, when_begun: Callable[["Entrant"], None] = lambda run: None) -> None:
        self.name = name
        self.begun = False
        self.ended = False
        self._when_begun = when_begun

    def begin(self) -> None:
        self.begun = True
        self._when_begun(self)


def entrants(names: str) -> list[Entrant]:
    return [Entrant(name) for name in names]


def end(slots: Slots, run: Entrant) -> None:
    run.ended = True
    slots.leave(run)


def begun(runs: list[Entrant]) -> str:
    return "".join(run.name for run in runs if run.begun)


def test_as_many_begin_as_there_are_slots() -> None:
    slots, runs = Slots(2), entrants("abcd")
    for run in runs:
        slots.enter(run, USUAL)
    assert begun(runs) == "ab"


def test_an_attempt_that_ends_lets_the_next_in_line_begin() -> None:
    slots, runs = Slots(2), entrants("abcd")
    for run in runs:
        slots.enter(run, USUAL)
    end(slots, runs[1])
    assert begun(runs) == "abc"
    end(slots, runs[0])
    assert begun(runs) == "abcd"


def test_the_most_urgent_in_line_is_next_then_the_first() -> None:
    slots, order = Slots(1), list[str]()
    runs = [Entrant(name, lambda run: order.append(run.name)) for name in "abcdef"]
    for run, priority in zip(runs, [USUAL, USUAL, LATE, URGENT, USUAL, URGENT], strict=True):
        slots.enter(run, priority)
    while any(not run.ended for run in runs):
        end(slots, next(run for run in runs if run.begun and not run.ended))
    assert "".join(order) == "adfbec"


def test_an_attempt_stopped_in_line_never_begins() -> None:
    slots, runs = Slots(1), entrants("abcd")
    for run in runs:
        slots.enter(run, USUAL)
    end(slots, runs[1])
    assert begun(runs) == "a"
    end(slots, runs[0])
    assert begun(runs) == "ac"


def test_attempts_that_end_at_once_need_no_more_stack() -> None:
    slots = Slots(1)
    first = Entrant("first")
    slots.enter(first, USUAL)
    runs = [Entrant("x", lambda run: end(slots, run)) for _ in range(5_000)]
    for run in runs:
        slots.enter(run, USUAL)
    end(slots, first)
    assert all(run.ended for run in runs)


class Clock:
    """As much of a loop as timeouts ask for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self.timers.append((when, call, arguments))

    def move(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, call, arguments in due:
            call(*arguments)


class Timed:
    def __init__(self) -> None:
        self.told = 0

    def time_out(self) -> None:
        self.told += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timeouts(clock: Clock) -> Timeouts:
    return Timeouts(cast(Any, clock))


def test_a_run_is_told_once_when_its_time_is_over(clock: Clock, timeouts: Timeouts) -> None:
    run = Timed()
    timeouts.watch(run, 10)
    clock.move(9)
    assert run.told == 0
    clock.move(1)
    clock.move(100)
    assert run.told == 1


def test_a_run_that_has_ended_is_not_told(clock: Clock, timeouts: Timeouts) -> None:
    run = Timed()
    timeouts.watch(run, 10)
    timeouts.forget(run, 10)
    clock.move(100)
    assert run.told == 0


def test_each_run_has_its_own_time_though_all_share_one_timer(clock: Clock, timeouts: Timeouts) -> None:
    runs = [Timed() for _ in range(4)]
    for run in runs:
        timeouts.watch(run, 10)
        clock.move(2)
    assert len(clock.timers) == 1
    timeouts.forget(runs[1], 10)
    clock.move(4)
    assert [run.told for run in runs] == [1, 0, 0, 0]
    clock.move(2)
    assert [run.told for run in runs] == [1, 0, 1, 0]
    clock.move(2)
    assert [run.told for run in runs] == [1, 0, 1, 1]


def test_a_short_timeout_does_not_wait_for_a_long_one(clock: Clock, timeouts: Timeouts) -> None:
    long, short = Timed(), Timed()
    timeouts.watch(long, 3600)
    timeouts.watch(short, 1)
    clock.move(1)
    assert (long.told, short.told) == (0, 1)


def test_a_timer_that_found_nobody_is_set_again_for_the_next(clock: Clock, timeouts: Timeouts) -> None:
    first, next_ = Timed(), Timed()
    timeouts.watch(first, 10)
    timeouts.forget(first, 10)
    clock.move(10)
    assert clock.timers == []
    timeouts.watch(next_, 10)
    clock.move(10)
    assert next_.told == 1


def window(slots: int, took: float) -> ClaimBudget:
    """Returns the budget of a worker whose jobs have taken so long."""
    window = ClaimBudget(slots)
    for _ in range(100):
        window.note_time(took)
    return window


def test_of_long_jobs_no_more_are_held_than_there_are_slots() -> None:
    long = window(10, took=2.0)
    assert [long.room(held) for held in (0, 4, 10)] == [10, 6, 0]


def test_short_jobs_are_held_in_three_batches_beyond_the_slots() -> None:
    short = window(10, took=0.001)
    assert [short.room(held) for held in (0, 10, 20, 30, 31, 40)] == [10, 10, 10, 10, 0, 0]


def test_short_jobs_are_claimed_in_whole_batches_of_bounded_size() -> None:
    assert window(100, took=0.001).room(held=150) == 100
    assert window(5_000, took=0.001).room(held=5_100) == ENOUGH_AT_ONCE


def test_nothing_is_claimed_ahead_before_jobs_are_known_to_be_short() -> None:
    assert ClaimBudget(10).room(10) == 0


def test_jobs_that_become_long_are_no_longer_claimed_ahead() -> None:
    changed = window(10, took=0.001)
    changed.note_time(1.0)
    assert changed.room(10) == 0

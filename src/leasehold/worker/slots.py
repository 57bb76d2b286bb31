"""Limits how many attempts run at a time, and how long each runs."""

import asyncio
from collections import defaultdict, deque
from itertools import takewhile
from typing import Protocol


class Entrant(Protocol):
    begun: bool
    ended: bool

    def begin(self) -> None: ...


class Slots:
    """Lets `count` attempts run at a time. The others wait in line without a task, in the order of their priority."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lines: dict[int, deque[Entrant]] = {}
        self._letting_in = False

    def enter(self, run: Entrant, priority: int) -> None:
        """Adds an attempt. An urgent one overtakes the hundreds that were claimed ahead and wait for a slot."""
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = deque()
        line.append(run)
        self._let_in()

    def leave(self, run: Entrant) -> None:
        """Frees the slot of an attempt that has ended. An attempt that was stopped in the line had none."""
        if run.begun:
            self._free += 1
            self._let_in()

    def _let_in(self) -> None:
        """Begins attempts while slots are free. Not reentrant: with eager tasks an attempt may end within `begin`."""
        if self._letting_in:
            return
        self._letting_in = True
        try:
            while self._free and self._lines:
                run = self._next()
                if not run.ended:
                    self._free -= 1
                    run.begin()
        finally:
            self._letting_in = False

    def _next(self) -> Entrant:
        priority = min(self._lines)
        line = self._lines[priority]
        run = line.popleft()
        if not line:
            del self._lines[priority]
        return run


class Timed(Protocol):
    def time_out(self) -> None: ...


class Timeouts:
    """Calls `time_out` of each attempt whose time is over.

    Attempts with equal timeouts time out in the order in which they began, so one timer serves them all. One timer
    for each attempt, set and canceled, took a tenth of what a job costs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ends: dict[float, dict[Timed, float]] = defaultdict(dict)
        self._timers: set[float] = set()

    def watch(self, run: Timed, seconds: float) -> None:
        self._ends[seconds][run] = end = self._loop.time() + seconds
        if seconds not in self._timers:
            self._set_timer(seconds, end)

    def forget(self, run: Timed, seconds: float) -> None:
        self._ends[seconds].pop(run, None)

    def _set_timer(self, seconds: float, end: float) -> None:
        self._timers.add(seconds)
        self._loop.call_at(end, self._strike, seconds)

    def _strike(self, seconds: float) -> None:
        self._timers.remove(seconds)
        ends, now = self._ends[seconds], self._loop.time()
        for run, _ in list(takewhile(lambda each: each[1] <= now, ends.items())):
            del ends[run]
            run.time_out()
        if ends:
            self._set_timer(seconds, next(iter(ends.values())))

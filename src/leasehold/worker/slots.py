"""How many jobs at a time, and how long each."""

import asyncio
from collections import defaultdict, deque
from itertools import takewhile
from typing import Protocol

SHORT_JOB = 0.05
# With so many at once a job takes 43 µs of the server's time, with 384 it takes 46. But what is urgent waits for a
# claim to end.
ENOUGH_AT_ONCE = 500


class Entrant(Protocol):
    begun: bool
    ended: bool

    def begin(self) -> None: ...


class Slots:
    """So many runs at a time. The others stand in line, where they need no task: the more urgent before the less."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lines: dict[int, deque[Entrant]] = {}
        self._letting_in = False

    def enter(self, run: Entrant, priority: int) -> None:
        """A whole window may have been claimed ahead; what is urgent overtakes those that wait here for a slot."""
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = deque()
        line.append(run)
        self._let_in()

    def leave(self, run: Entrant) -> None:
        """`run` has ended. If it was stopped while it stood in line, it had no slot."""
        if run.begun:
            self._free += 1
            self._let_in()

    def _let_in(self) -> None:
        """Not from within itself: where the loop begins tasks eagerly, a run may have ended when `begin` returns."""
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


class Window:
    """How many jobs a worker holds, and claims at a time.

    As many as it has slots, and whatever is free is claimed. Of short jobs also a batch that comes and one that goes:
    so claiming, running and finishing go on side by side, and none of them waits for the others.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._batch = min(slots, ENOUGH_AT_ONCE)
        self._usual_time = 1.0

    def took(self, seconds: float) -> None:
        """From a job's start to its end, the time that it stood in line included."""
        self._usual_time = 0.9 * self._usual_time + 0.1 * seconds

    def room(self, held: int) -> int:
        """How many to claim now; none, if there is no room yet for a whole batch of short ones."""
        if self._usual_time >= SHORT_JOB:
            return max(0, self._slots - held)
        return self._batch if held <= self._slots + self._batch else 0


class Timed(Protocol):
    def time_out(self) -> None: ...


class Timeouts:
    """Tells runs when their time is over.

    Those that may take equally long come to their end in the order in which they began, so one timer serves them all.
    A timer of its own for each run, set and canceled, took a tenth of what a job costs.
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

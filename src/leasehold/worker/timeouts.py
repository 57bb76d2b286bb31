"""Limits how long each attempt runs."""

import asyncio
from collections import defaultdict
from itertools import takewhile
from typing import Protocol


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

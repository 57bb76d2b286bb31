"""Counts handlers that still run although their attempt is over."""

import threading
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Protocol

from leasehold.runtime.process import ServiceFailed


class TooManyStuck(ServiceFailed):
    """Ends a worker whose stuck handlers are too many: only the end of the process frees what they hold."""


class Held(Protocol):
    """An attempt, and whether its handler is still being executed."""

    @property
    def name(self) -> str: ...
    @property
    def is_inside(self) -> bool: ...
    def mark_outside(self) -> None: ...


class StuckHandlers:
    """Counts the handlers that ignore a timeout, a cancel or a stop, by their names.

    A thread can't be stopped, and a coroutine may swallow its cancel. Their attempts are decided without them, and
    their slots are free, but each keeps its thread or task, and its locks.
    """

    def __init__(self, most: float = inf, too_many: Callable[[], None] = lambda: None) -> None:
        """Calls `too_many` once, when more than `most` handlers are stuck."""
        self._most = most
        self._too_many = too_many
        self._runs: set[Held] = set()
        self._lock = threading.Lock()
        self._told = False

    def __len__(self) -> int:
        return len(self._runs)

    def __str__(self) -> str:
        """Returns names and numbers, as in "import_orders (3), resize (1)"."""
        with self._lock:
            counted = Counter(run.name for run in self._runs)
        return ", ".join(f"{name} ({count})" for name, count in counted.most_common())

    def add(self, run: Held) -> None:
        """Counts the attempt, unless its handler has returned in the meantime."""
        with self._lock:
            if run.is_inside:
                self._runs.add(run)
            tells = len(self._runs) > self._most and not self._told
            self._told = self._told or tells
        if tells:
            self._too_many()

    def discard(self, run: Held) -> None:
        """Notes that the attempt's handler has returned. May be called by any thread."""
        with self._lock:
            run.mark_outside()
            self._runs.discard(run)

"""Notices that the worker's event loop does not run, and names the handler that blocks it."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from traceback import extract_stack
from types import FrameType

from leasehold.model.job import Claim
from leasehold.telemetry.attempt_context import current_claim
from leasehold.worker.attempt import Attempt
from leasehold.worker.tracebacks import trace_of_stack

# A look takes 44 µs of processor time. Code that blocks the loop for longer than both together is always seen.
EVERY, LIMIT = 0.5, 0.5
# Code that blocks for ever is reported after so many seconds; other code when the loop runs again.
AT_LAST = 5.0
MOST_FRAMES = 100


@dataclass(frozen=True, slots=True)
class Blocked:
    """The loop did not run for so many seconds, at least. `claim` is that of the handler, `where` the place in it."""

    seconds: float
    claim: Claim | None = None
    where: str | None = None


class LoopWatch:
    """Asks the loop for an answer, twice a second while jobs run, from a thread of its own; sleeps while idle.

    `on_lag` is called with the seconds that an answer took, `on_blocked` if they were too many; both by the thread,
    since a loop that is blocked can't be told of it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        has_work: Callable[[], bool],
        on_lag: Callable[[float], None],
        on_blocked: Callable[[Blocked], None],
    ) -> None:
        self._loop = loop
        self._has_work = has_work
        self._on_lag = on_lag
        self._on_blocked = on_blocked
        self._loop_thread = threading.get_ident()
        self._work = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leasehold-loop-watch", daemon=True)

    def start(self) -> None:
        """Starts the thread. Without one, which the system may refuse, nothing is watched."""
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):
            self._ended.set()

    def note_work(self) -> None:
        """Notes that a job begins after a rest."""
        if not self._work.is_set():
            self._work.set()

    def stop(self) -> None:
        self._ended.set()
        self._work.set()

    def _run(self) -> None:
        while True:
            self._work.wait()
            if self._ended.is_set():
                return
            self._work.clear()
            while self._has_work() and not self._ended.is_set():
                self._look()
                self._ended.wait(EVERY)

    def _look(self) -> None:
        asked, answered = monotonic(), threading.Event()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            self._ended.set()
            return
        if not answered.wait(LIMIT / 2):
            seen = self._find_code()
            if answered.wait(LIMIT / 2):
                self._on_lag(monotonic() - asked)
                return
            claim, where = self._seen_twice(*seen)
            answered.wait(AT_LAST - LIMIT)
            if self._ended.is_set():  # and the loop perhaps closed, which looks the same
                return
            self._on_blocked(Blocked(monotonic() - asked, claim, where))
            while not answered.wait(1.0):
                if self._ended.is_set():
                    return
        elif monotonic() - asked > LIMIT:  # native code has held up all threads
            self._on_blocked(Blocked(monotonic() - asked))
        self._on_lag(monotonic() - asked)

    def _seen_twice(self, claim: Claim | None, where: str | None) -> tuple[Claim | None, str | None]:
        """Returns the handler only if it is still there. Many short ones on a busy machine block nothing."""
        now, place = self._find_code()
        return (claim, where) if claim is None or claim == now else (None, place)

    def _find_code(self) -> tuple[Claim | None, str | None]:
        """Returns the claim of the handler that runs on the loop now, and the place in the app's code."""
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return None, None
        claim = _claim_of_frames(frame) or self._claim_of_task()
        trace = trace_of_stack(extract_stack(frame, MOST_FRAMES))
        return claim, None if trace is None else trace.where

    def _claim_of_task(self) -> Claim | None:
        """Returns the claim of a handler that has started the task which runs now. Python 3.11 does not know it."""
        task = asyncio.current_task(self._loop)
        context = getattr(task, "get_context", lambda: None)()
        return None if context is None else context.get(current_claim)


def _claim_of_frames(frame: FrameType | None) -> Claim | None:
    while frame is not None:
        if frame.f_code is Attempt.execute.__code__:
            attempt: Attempt = frame.f_locals["self"]
            return attempt.claim
        frame = frame.f_back
    return None

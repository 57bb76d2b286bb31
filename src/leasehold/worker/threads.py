"""Threads for handlers that are not coroutines."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from leasehold.runtime.supervise import RestartPolicy

log = logging.getLogger("leasehold.worker")
P = ParamSpec("P")
T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0


class ThreadRefused(RuntimeError):
    """The system has refused to start a thread. The function is not called."""


class Threads(Executor):
    """Starts a thread when all are busy, up to `most`; then calls wait for one.

    Python waits for the threads of its own pool before a process may end. Some of these threads run handlers whose
    attempts are over: a timeout, a lost lease or the end of the grace has given their jobs away.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._count = 0
        self._free = 0
        self._ended = False
        self._restarts = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)
        self._paused_until = float("-inf")
        self._changed = threading.Condition()

    @property
    def pause(self) -> float:
        """Seconds during which nothing should be submitted, because the system has just refused a thread."""
        return max(0.0, self._paused_until - monotonic())

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Raises ThreadRefused, and does not call `fn`, if a thread is needed and can't be started."""
        future: Future[T] = Future()
        with self._changed:
            if self._ended:
                raise RuntimeError("the worker has ended: its threads take no calls")
            self._calls.append((future, partial(fn, *args, **kwargs)))
            if self._free < len(self._calls) and self._count < self._most:
                try:
                    self._begin()
                except (RuntimeError, MemoryError) as error:
                    self._calls.pop()  # or a busy thread would make the call later, beside the next attempt
                    self._count -= 1
                    self._lengthen_pause(error)
                    raise ThreadRefused(f"the system has refused to start a thread: {error}") from error
                self._restarts.reset()
            else:
                self._changed.notify()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Ends idle threads now and busy ones after their call. Never waits for them, whatever `wait` says."""
        with self._changed:
            self._ended = True
            dropped = list(self._calls) if cancel_futures else []
            if cancel_futures:
                self._calls.clear()
            self._changed.notify_all()
        for future, _ in dropped:
            future.cancel()

    def _begin(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, name=f"{self._name}-{self._count}", daemon=True).start()

    def _lengthen_pause(self, error: BaseException) -> None:
        if self.pause:
            return
        seconds = self._restarts.next_pause()
        self._paused_until = monotonic() + seconds
        log.warning(
            "the system has refused to start a thread for a handler (%s), with %d threads running; its job is given "
            "back at no cost, and the worker claims nothing for %g s",
            error,
            self._count,
            seconds,
        )

    def _work(self) -> None:
        while call := self._next():
            _run(*call)
            del call

    def _next(self) -> tuple["Future[Any]", Callable[[], Any]] | None:
        with self._changed:
            self._free += 1
            while not (self._calls or self._ended):
                self._changed.wait()
            self._free -= 1
            return self._calls.popleft() if self._calls else None


def _run(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        del future, call  # the error refers to this frame, and they to the error: only the collector could free them
    else:
        future.set_result(result)

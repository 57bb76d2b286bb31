"""Threads for handlers that are no coroutines."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Executor):
    """Begins a thread when all are busy, up to `most`; then calls wait for one.

    Python waits for the threads of its own pool before a process may end. Of these, some run handlers that nobody
    waits for any more: a timeout, a lost lease or the end of the grace has given their jobs away.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._count = 0
        self._free = 0
        self._ended = False
        self._changed = threading.Condition()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        with self._changed:
            if self._ended:
                raise RuntimeError("the worker has ended: its threads take no calls")
            self._calls.append((future, partial(fn, *args, **kwargs)))
            if self._free < len(self._calls) and self._count < self._most:
                self._begin()
            else:
                self._changed.notify()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Idle threads end now, busy ones after their call; nobody waits for them, whatever is asked for."""
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
        del (
            future,
            call,
        )  # the error knows this frame, and they know the error: nobody but the collector could part them
    else:
        future.set_result(result)

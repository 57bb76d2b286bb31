"""Asks an event loop for answers from other threads, and tells for how long it has not answered."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")


class LoopProbe:
    """Asks nothing by itself: an idle process costs nothing. A call that is not answered is the measure of the next.

    `loop` is None until the service of the process has begun.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._asked_at: float | None = None
        self._answered = threading.Event()
        self._lock = threading.Lock()

    def lag(self, patience: float) -> float:
        """Returns how long the loop took to answer; after `patience` seconds, for how long it has not answered."""
        with self._lock:
            if self._asked_at is None or self._answered.is_set():
                self._answered.clear()
                self._asked_at = monotonic()
                if not self._post(self._answered.set):
                    self._asked_at = None  # or a call before the loop began would count as never answered
                    return 0.0
            asked = self._asked_at
        self._answered.wait(patience)
        return monotonic() - asked

    def ask(self, question: Callable[[], Coroutine[Any, Any, T]], patience: float) -> T:
        """Returns the answer of a coroutine that runs on the loop. Raises TimeoutError, or its own error."""
        if self.loop is None:
            raise TimeoutError("the event loop has not begun")
        coroutine = question()
        try:
            asked = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError as error:
            coroutine.close()
            raise TimeoutError("the event loop has ended") from error
        try:
            return asked.result(patience)
        except CancelledError as error:
            raise TimeoutError("the event loop ends") from error
        except TimeoutError:
            asked.cancel()
            raise

    def _post(self, call: Callable[[], None]) -> bool:
        try:
            if self.loop is None:
                return False
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed: the process ends
            return False
        return True

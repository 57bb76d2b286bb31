"""Sends the log lines of an isolated handler to its worker, in batches that can't hold up the worker's loop."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from leasehold.worker.log_buffer import MOST_CHARACTERS, MOST_LINES
from leasehold.worker.messages import Message

BATCH_LINES = 100
BATCH_CHARACTERS = 50_000

Line = list[Any]
"""A text, the value of its kind, and a progress; or one number: of lines that were dropped in this place."""


class LineSender:
    """Takes lines from any thread. The next batch is sent when the worker has taken the one before.

    Until then lines wait, up to the bounds of a worker's own buffer. Further ones are counted, and the worker marks
    their place as it does for other handlers.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._call = 0
        self._waiting: deque[Line] = deque()
        self._characters = 0
        self._dropped = 0
        self._is_sent = False
        self._lock = threading.Lock()

    def begin(self, call: int) -> None:
        with self._lock:
            self._call, self._is_sent = call, False

    def append(self, call: int, text: str, kind: str, progress: float | None) -> bool:
        """Returns False if the line is not kept: too many wait, or the call has ended."""
        with self._lock:
            if call != self._call:
                return False
            if len(self._waiting) >= MOST_LINES or self._characters >= MOST_CHARACTERS:
                self._dropped += 1
                return False
            self._note_dropped()
            self._waiting.append([text, kind, progress])
            self._characters += len(text)
            if not self._is_sent:
                self._send_batch()
        return True

    def taken(self, call: int) -> None:
        """Sends the next batch: the worker has taken the one before."""
        with self._lock:
            if call == self._call:
                self._is_sent = False
                self._note_dropped()
                self._send_batch()

    def end(self) -> None:
        """Sends the rest, before the answer to the call; ignores what the handler logs later."""
        with self._lock:
            self._note_dropped()
            while self._waiting:
                self._send_batch()
            self._call = 0

    def _note_dropped(self) -> None:
        if self._dropped:
            self._waiting.append([self._dropped])
            self._dropped = 0

    def _send_batch(self) -> None:
        batch: list[Line] = []
        characters = 0
        while self._waiting and len(batch) < BATCH_LINES and characters < BATCH_CHARACTERS:
            line = self._waiting.popleft()
            characters += len(line[0]) if len(line) > 1 else 0
            batch.append(line)
        self._characters -= characters
        if batch:
            self._is_sent = True
            self._send({"call": self._call, "lines": batch})

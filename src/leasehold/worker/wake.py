"""The wake chain: one wake reaches one dispatcher, and one that found work wakes the next.

    a NOTIFY ─┐
    due time ─┼─▶ token ─▶ one dispatcher claims ─▶ found work? ─▶ token ─▶ the next dispatcher …
    fallback ─┘

A dispatcher in its tight loop neither takes nor sends tokens. So a burst of any size costs about one token for each
dispatcher, and an idle worker costs none. There are never more tokens than dispatchers: a token says "look", and one
who looks sees everything.
"""

import asyncio
from collections import deque
from datetime import timedelta
from enum import Enum, auto


class Reason(Enum):
    NEWS = auto()
    DUE = auto()
    FALLBACK = auto()


class WakeChain:
    """Tokens, and one timer for the next due time or the fallback. The due time always comes from the store."""

    def __init__(self, dispatchers: int, fallback: timedelta) -> None:
        self._tokens: deque[Reason] = deque()
        self._available = asyncio.Semaphore(0)
        self._most = dispatchers
        self.fallback = fallback
        self._timer: asyncio.TimerHandle | None = None

    def wake(self, reason: Reason = Reason.NEWS) -> None:
        """Wakes one dispatcher; with a token for each already there, nothing is gained by one more."""
        if len(self._tokens) < self._most:
            self._tokens.append(reason)
            self._available.release()

    def pass_on(self) -> None:
        """From one who was woken and found work to the next. Who is alone has nobody to wake, least of all itself."""
        if self._most > 1:
            self.wake()

    def arm(self, next_due: timedelta | None) -> None:
        """Replaces the timer, whatever it was set to: what the store says now is true, what it said before was."""
        due = float("inf") if next_due is None else max(0.0, next_due.total_seconds())
        fallback = self.fallback.total_seconds()
        reason = Reason.DUE if due <= fallback else Reason.FALLBACK
        self.disarm()
        self._timer = asyncio.get_running_loop().call_later(min(due, fallback), self.wake, reason)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait(self) -> Reason:
        await self._available.acquire()
        return self._tokens.popleft()

    async def wait_at_most(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return

"""The wake chain: one wake reaches one dispatcher, and a dispatcher that found work wakes the next.

    a NOTIFY ─┐
    due time ─┼─▶ token ─▶ one dispatcher claims ─▶ found work? ─▶ token ─▶ the next dispatcher …
    fallback ─┘

The worker that was woken for a future job looks exactly when it is due. All others are its deputies: they look up to
a second later, in case that worker has died.

A dispatcher in its tight loop neither takes nor sends tokens. So a burst of any size costs about one token for each
dispatcher, and an idle worker costs none. There are never more tokens than dispatchers: a token says "look", and a
loop that looks sees everything.
"""

import asyncio
from collections import deque
from datetime import timedelta
from enum import StrEnum
from random import uniform

# How many seconds after a due time a deputy looks: late enough for the worker that looks exactly then.
EARLIEST_DEPUTY, LATEST_DEPUTY = 0.2, 0.9


class Reason(StrEnum):
    """Why a dispatcher looks for work."""

    NEWS = "wake"
    DUE = "due"
    FALLBACK = "fallback"
    DEPUTY = "deputy"
    # Without a token: it found work before, or has just begun.
    BUSY = "busy"
    START = "start"


class WakeChain:
    """Tokens, a timer for the next due time or the fallback, and one for due times that another worker looks after.

    A due time always comes from the store. `may_be_chosen`: a producer may have chosen to wake this worker and no
    other, so this worker has to wake another one if it can't take all ready jobs.
    """

    def __init__(self, dispatchers: int, fallback: timedelta) -> None:
        self._tokens: deque[Reason] = deque()
        self._available = asyncio.Semaphore(0)
        self._most = dispatchers
        self.fallback = fallback
        self._timer: asyncio.TimerHandle | None = None
        self._deputy: asyncio.TimerHandle | None = None
        self._lag = uniform(EARLIEST_DEPUTY, LATEST_DEPUTY)
        self.waiting = 0
        self.may_be_chosen = True

    @property
    def is_at_rest(self) -> bool:
        """Whether all dispatchers wait, and no token is on its way to one of them."""
        return self.waiting == self._most and not self._tokens

    @property
    def deputy_is_set(self) -> bool:
        return self._deputy is not None

    def wake(self, reason: Reason = Reason.NEWS) -> None:
        """Wakes one dispatcher, unless there is a token for each already."""
        if len(self._tokens) < self._most:
            self._tokens.append(reason)
            self._available.release()

    def pass_on(self) -> None:
        """Wakes the next dispatcher, after one was woken and found work. A single dispatcher has no other to wake."""
        if self._most > 1:
            self.wake()

    def arm(self, next_due: timedelta | None) -> None:
        """Replaces the timer: the store's latest answer replaces all earlier ones."""
        due = float("inf") if next_due is None else max(0.0, next_due.total_seconds())
        fallback = self.fallback.total_seconds()
        reason = Reason.DUE if due <= fallback else Reason.FALLBACK
        self.disarm()
        self._timer = asyncio.get_running_loop().call_later(min(due, fallback), self.wake, reason)

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stand_in(self, next_due: timedelta | None) -> None:
        """Sets the deputy's timer, unless it is set for an earlier time: that look learns of later due times."""
        if next_due is None:
            return
        loop = asyncio.get_running_loop()
        moment = loop.time() + max(0.0, next_due.total_seconds()) + self._lag
        if self._deputy is None or moment < self._deputy.when():
            self.stand_down()
            self._deputy = loop.call_at(moment, self._look_as_deputy)

    def stand_down(self) -> None:
        """Cancels the deputy's timer before a claim, which sees every announced job and returns the next due time."""
        if self._deputy is not None:
            self._deputy.cancel()
            self._deputy = None

    def _look_as_deputy(self) -> None:
        self._deputy = None
        self.wake(Reason.DEPUTY)

    async def wait(self) -> Reason:
        self.waiting += 1
        try:
            await self._available.acquire()
        finally:
            self.waiting -= 1
        return self._tokens.popleft()

    async def wait_at_most(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return

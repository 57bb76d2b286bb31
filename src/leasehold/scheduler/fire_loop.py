"""The loop that fires schedules in time: sleeps until the next fire, fires, and sleeps again.

    own look ─────────┐
    heartbeat ────────┼─▶ when the next schedule fires ─▶ timer ─▶ fire ─▶ when the next one fires …
    notification ─────┘

Many loops know the same next fire, one in each worker. The one that has fired last looks exactly then, and its
transaction announces that it has fired, and when the next fire is. All others are its deputies: they look up to a
second later, unless the announcement comes first. So a fire costs one transaction, however many loops there are, and
a loop that dies is replaced within a second. Events that plain SQL has emitted are announced and expanded in the same
way, and for them a deputy waits less. No lock is held for this, and two loops that look at once do no harm: a
schedule that one has locked is passed over by the other.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import uniform
from time import monotonic

from leasehold.scheduler.step import fire_due_schedules, is_due
from leasehold.store import FireRound, NextFire, TriggerStore
from leasehold.telemetry import Listeners

# How many seconds after a fire time a deputy looks: late enough for the loop that looks exactly then.
EARLIEST_DEPUTY, LATEST_DEPUTY = 0.2, 0.9
# The same for an event: it is expected at once, and a look in vain is cheap.
EARLIEST_FOR_EVENT, LATEST_FOR_EVENT = 0.02, 0.1
# A timer may end a moment early. Then the next fire is nearer than this, and no other loop has made it.
EARLY = timedelta(seconds=0.2)
# How many seconds later the first loop looks once more at a fire that came due, or was locked, during its look.
ONCE_MORE = 0.02
# After so many seconds it looks again for fires of an older tzdata, which some worker may still have.
RENEW_EVERY = 3600.0


class FireLoop:
    """Fires schedules. It asks the database nothing while no schedule is due, but for a newer tzdata at its start.

    `expect` is called with the answers of heartbeats, `hear` with notifications, `look` to look at once, and `check`
    now and then. Only a look at a fire time that is known makes a deputy of the loop: `look` and `check` find nothing
    when no other loop runs, too.
    """

    def __init__(
        self,
        store: TriggerStore,
        on_fired: Callable[[int], None] = lambda _jobs: None,
        listeners: Listeners | None = None,
        on_answer: Callable[[float], None] = lambda _asked: None,
    ) -> None:
        """Calls `on_fired` with the number of jobs that a look has made, and listeners with each decision.

        `on_answer` gets the moment at which the database was asked, whenever it has answered.
        """
        self._listeners = listeners
        self._on_answer = on_answer
        self._store = store
        self._on_fired = on_fired
        self._fire_at: float | None = None
        self._is_known = False
        self._looked_once = False
        self._is_first = True
        self._renew_at = 0.0
        self._lag = uniform(EARLIEST_DEPUTY, LATEST_DEPUTY)
        self._changed = asyncio.Event()

    @property
    def is_first(self) -> bool:
        """Whether this loop looks exactly at fire times, and not as a deputy."""
        return self._is_first

    def look(self) -> None:
        """Looks now, as at the start."""
        self._is_first = True
        self._set(self._now())

    def check(self) -> None:
        """Looks for fires that were not announced; a deputy does it as late as it looks at fire times."""
        if self._fire_at is None or self._fire_at > self._now():
            self._set(self._now())

    def expect(self, next_fire: timedelta | None) -> None:
        """Notes the next fire as the database had it a moment ago. An earlier one that is known stays."""
        if next_fire is not None:
            self._advance(self._now() + max(0.0, next_fire.total_seconds()))

    def hear(self, announced: NextFire) -> None:
        """Notes an announced fire. After `fired`, a deputy need not look at fires that were due before."""
        if announced.fired and not self._is_first and self._fire_at is not None and self._fire_at <= self._now():
            self._set(None)
        if announced.event and not self._is_first:
            self._advance(self._now() + uniform(EARLIEST_FOR_EVENT, LATEST_FOR_EVENT) - self._lag)
        elif announced.wait is None and not announced.fired:
            self.check()
        else:
            self.expect(announced.wait)

    async def run(self) -> None:
        while True:
            if self._now() >= self._renew_at:
                await self._store.schedules.renew_fire_times()
                self._renew_at = self._now() + RENEW_EVERY
            await self._wait()
            await self._fire()

    async def _wait(self) -> None:
        """Waits until the next fire that is known; it may become known, or change, meanwhile."""
        while (moment := self._look_at()) is None or moment > self._now():
            self._changed.clear()
            try:
                async with asyncio.timeout(None if moment is None else moment - self._now()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _fire(self) -> None:
        """Fires all that is due. Fires that are announced meanwhile may be younger than the answer, and stay."""
        self._fire_at, is_known = None, self._is_known
        asked = monotonic()
        try:
            done = await fire_due_schedules(self._store, listeners=self._listeners)
        except BaseException:
            self._set(self._now())
            raise
        self._on_answer(asked)
        if self._looks_once_more(done, is_known):
            self._advance(self._now() + ONCE_MORE)
            return
        self._take_turn(done, is_known)
        self.expect(done.next_fire)

    def _looks_once_more(self, done: FireRound, is_known: bool) -> bool:
        """Returns whether a fire may have come due after the look, and before its answer."""
        is_open = is_known and self._is_first and not done.fired and is_due(done.next_fire)
        self._looked_once = is_open and not self._looked_once
        return self._looked_once

    def _take_turn(self, done: FireRound, is_known: bool) -> None:
        """Becomes first after it has fired, and a deputy if another loop has made the fire that was known."""
        if done.fired:
            self._on_fired(done.fired)
        if done.fired or done.expanded:
            self._is_first = True
        elif is_known and (is_due(done.next_fire) or done.next_fire is None or done.next_fire > EARLY):
            self._is_first = False

    def _look_at(self) -> float | None:
        if self._fire_at is None:
            return None
        return self._fire_at if self._is_first else self._fire_at + self._lag

    def _advance(self, moment: float) -> None:
        if self._fire_at is None or moment < self._fire_at:
            self._set(moment, is_known=True)

    def _set(self, moment: float | None, *, is_known: bool = False) -> None:
        self._fire_at, self._is_known = moment, is_known
        self._changed.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

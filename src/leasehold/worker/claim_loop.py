"""The claim loop: wait for room and for work, claim, prefetch."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from leasehold.store import Claimed, Registration
from leasehold.worker.claims import Ask, ClaimLedger
from leasehold.worker.prefetch import ClaimBudget
from leasehold.worker.store_calls import StoreCalls
from leasehold.worker.threads import Threads
from leasehold.worker.wake import Reason, WakeChain

FIRST_HESITATION, LONGEST_HESITATION = 0.005, 0.25
LINGER = 0.003


class ClaimLoop:
    """Claims jobs while there is room, and sleeps when none is ready."""

    def __init__(
        self,
        calls: StoreCalls,
        ledger: ClaimLedger,
        budget: ClaimBudget,
        chain: WakeChain,
        threads: Threads,
        listens: Callable[[], bool],
    ) -> None:
        self._calls = calls
        self._ledger = ledger
        self._budget = budget
        self._chain = chain
        self._threads = threads
        self._listens = listens

    async def run(self) -> None:
        """Claims in a loop. Only a loop that was woken and found work wakes the next loop, never a busy one.

        The same holds between workers, for a worker that leaves ready jobs behind: see `_wake_another`. It may take
        two claims to fill a worker, since a claim that raced with others brings less than there is.
        """
        woken, hesitation = False, FIRST_HESITATION
        while True:
            claimed = await self._claim(self._calls.store.claim, await self._wait_for_room())
            if not claimed.claims and self._listens():
                self._chain.may_be_chosen = True
                claimed = await self._claim(self._calls.store.prepare_to_sleep, await self._wait_for_room())
            if claimed.claims:
                if woken:
                    self._chain.pass_on()
                if claimed.more:
                    await self._wake_another()
                woken, hesitation = False, FIRST_HESITATION
                if not claimed.more:
                    await asyncio.sleep(LINGER)
            elif claimed.more:
                await self._chain.wait_at_most(hesitation)
                woken, hesitation = True, min(2 * hesitation, LONGEST_HESITATION)
            else:
                await self._sleep(claimed)
                woken, hesitation = True, FIRST_HESITATION

    async def _claim(self, ask: Ask, room: int) -> Claimed:
        def stand_down_and_ask(registration: Registration, limit: int) -> Awaitable[Claimed]:
            self._chain.stand_down()
            return ask(registration, limit)

        return await self._ledger.claim(stand_down_and_ask, room)

    async def _wait_for_room(self) -> int:
        """Returns how many jobs to claim, as soon as there is room. A wake that comes before that is passed on."""
        while not (room := self._budget.room(self._ledger.count)):
            self._ledger.freed.clear()
            await self._wake_another()
            await self._ledger.freed.wait()
        if pause := self._threads.pause:
            await asyncio.sleep(pause)
        return room

    async def _wake_another(self) -> None:
        """Wakes another worker for the jobs that this one leaves, if a producer may have chosen only this one."""
        if self._chain.may_be_chosen:
            self._chain.may_be_chosen = False
            await self._calls.in_time(self._calls.store.wake_another(self._calls.registration))

    async def _sleep(self, prepared: Claimed) -> None:
        """Sleeps until a wake or a due time. After a fallback or as a deputy it looks once and sleeps on.

        Producers rely on the due time that `prepare_to_sleep` stored: this worker looks then in any case.
        """
        loop = self._calls.loop
        self._chain.arm(prepared.next_due)
        promised = None if prepared.next_due is None else loop.time() + prepared.next_due.total_seconds()
        while (reason := await self._chain.wait()) in (Reason.FALLBACK, Reason.DEPUTY):
            claimed = await self._claim(self._calls.store.claim, await self._wait_for_room())
            if claimed.claims or claimed.more:
                return
            if reason is Reason.FALLBACK:
                self._chain.arm(_earlier(claimed.next_due, promised, loop.time()))
            else:
                self._chain.stand_in(claimed.next_due)


def _earlier(next_due: timedelta | None, promised: float | None, now: float) -> timedelta | None:
    """Returns the next due time, or the one promised to producers if that is still to come and earlier."""
    if promised is None or promised <= now:
        return next_due
    left = timedelta(seconds=promised - now)
    return left if next_due is None else min(next_due, left)

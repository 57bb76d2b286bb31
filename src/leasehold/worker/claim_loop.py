"""The claim loop: wait for room and for work, decide how many jobs to claim ahead, claim."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from leasehold.store import Claimed
from leasehold.worker.claims import Ask, ClaimLedger
from leasehold.worker.store_calls import StoreCalls
from leasehold.worker.threads import Threads
from leasehold.worker.wake import Reason, WakeChain

FIRST_HESITATION, LONGEST_HESITATION = 0.005, 0.25
LINGER = 0.003
SHORT_JOB = 0.05
# With 500 at once a job takes 43 µs of the server's time, with 384 it takes 46. A larger batch would make urgent jobs
# wait longer for the end of a claim.
ENOUGH_AT_ONCE = 500


class ClaimBudget:
    """Decides how many jobs a worker claims at a time, and how many it holds.

    A worker holds as many jobs as it has slots. If jobs are short, it also holds a batch that is being claimed and
    two that are being finished, so that claiming, running and finishing overlap, also if a finish waits for the disk.
    With one of them, claims paused for 7 to 9 ms after a slow finish, and a drain was 5 % slower.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._batch = min(slots, ENOUGH_AT_ONCE)
        self._usual_time = 1.0

    def note_time(self, seconds: float) -> None:
        """Notes the seconds from a job's claim to its end, the wait for a slot included."""
        self._usual_time = 0.9 * self._usual_time + 0.1 * seconds

    def room(self, held: int) -> int:
        """Returns how many jobs to claim now: 0 if a whole batch of short jobs does not fit yet."""
        if self._usual_time >= SHORT_JOB:
            return max(0, self._slots - held)
        return self._batch if held <= self._slots + 2 * self._batch else 0


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
        on_poll: Callable[[Reason, int], None] = lambda _reason, _claimed: None,
    ) -> None:
        """Calls `on_poll` after each look for work: why it looked, and how many jobs it got."""
        self._on_poll = on_poll
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
        woken, hesitation, reason = False, FIRST_HESITATION, Reason.START
        while True:
            claimed = await self._look(self._calls.store.claim, reason)
            if not claimed.claims and self._listens():
                self._chain.may_be_chosen = True
                claimed = await self._look(self._calls.store.prepare_to_sleep, reason)
            reason = Reason.BUSY
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
                reason = await self._sleep(claimed)
                woken, hesitation = True, FIRST_HESITATION

    async def _look(self, ask: Ask, reason: Reason) -> Claimed:
        claimed = await self._ledger.claim(ask, await self._wait_for_room())
        self._on_poll(reason, len(claimed.claims))
        return claimed

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

    async def _sleep(self, prepared: Claimed) -> Reason:
        """Sleeps until a wake or a due time. After a fallback or as a deputy it looks once and sleeps on.

        Returns why the loop has to look again.
        Producers rely on the due time that `prepare_to_sleep` stored: this worker looks then in any case.
        """
        loop = self._calls.loop
        self._chain.arm(prepared.next_due)
        promised = None if prepared.next_due is None else loop.time() + prepared.next_due.total_seconds()
        while (reason := await self._chain.wait()) in (Reason.FALLBACK, Reason.DEPUTY):
            claimed = await self._look(self._calls.store.claim, reason)
            if claimed.claims or claimed.more:
                return Reason.BUSY
            if reason is Reason.FALLBACK:
                self._chain.arm(_earlier(claimed.next_due, promised, loop.time()))
            else:
                self._chain.stand_in(claimed.next_due)
        return reason


def _earlier(next_due: timedelta | None, promised: float | None, now: float) -> timedelta | None:
    """Returns the next due time, or the one promised to producers if that is still to come and earlier."""
    if promised is None or promised <= now:
        return next_due
    left = timedelta(seconds=promised - now)
    return left if next_due is None else min(next_due, left)

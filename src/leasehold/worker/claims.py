"""The claims of one registration, and the state of each."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from operator import attrgetter
from random import random

from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import Outcome, Released, decide_safely
from leasehold.store import Claimed, Registration
from leasehold.store.reclaim import finish_all
from leasehold.worker.attempt import Attempt
from leasehold.worker.store_calls import StoreCalls

Ask = Callable[[Registration, int], Awaitable[Claimed]]


class ClaimState(StrEnum):
    """HELD: claimed, not made ready. STARTING: waits for a slot. RUNNING: its handler runs. DONE: to be written."""

    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"


class ClaimLedger:
    """Knows every claim of one registration: held, starting, running, done.

    Claims can also be in doubt: a claim statement was sent, and its answer is missing. Then the store may hold claims
    for this registration that the ledger does not know; `reconcile` asks the store and gives them back.

    The stages share `held` and `done`: `any_held` and `any_done` wake the stage that takes from them.
    `has_claimed`: jobs were claimed, or may have been.
    """

    def __init__(
        self,
        calls: StoreCalls,
        on_doubt: Callable[[], None] = lambda: None,
        before_claim: Callable[[], None] = lambda: None,
        on_claims: Callable[[Sequence[Claim]], None] = lambda _claims: None,
        on_lost: Callable[[Claim], None] = lambda _claim: None,
    ) -> None:
        """Calls `before_claim` when a claim is about to be sent, `on_doubt` when a claim loop has to reconcile.

        `on_claims` is called with the jobs of each claim, `on_lost` with a claim that is lost while its attempt runs.
        """
        self._calls = calls
        self._on_claims = on_claims
        self._on_lost = on_lost
        self._before_claim = before_claim
        self._on_doubt = on_doubt
        self.held: deque[Claim] = deque()
        self.attempts: dict[Claim, Attempt] = {}
        self.done: list[tuple[Attempt, Outcome]] = []
        self.any_held = asyncio.Event()
        self.any_done = asyncio.Event()
        self.freed = asyncio.Event()
        self.claiming = asyncio.Lock()
        self.has_claimed = False
        self._unanswered = False
        self._strays_may_come = False

    @property
    def count(self) -> int:
        """How many jobs are claimed and not finished."""
        return len(self.attempts) + len(self.held)

    @property
    def in_doubt(self) -> bool:
        return self._unanswered or self._strays_may_come

    @property
    def is_growing(self) -> bool:
        """Whether there are, or may soon be, claims without an attempt, which heartbeats don't know yet."""
        return self.claiming.locked() or bool(self.held)

    def states(self) -> Mapping[Claim, ClaimState]:
        """Returns the state of each claim, for tests and for people."""
        return dict.fromkeys(self.held, ClaimState.HELD) | {
            claim: _state(attempt) for claim, attempt in self.attempts.items()
        }

    # ------------------------------------------------------------------------------------------------------ claimed

    async def claim(self, ask: Ask, limit: int) -> Claimed:
        """Claims by `ask`. The starter makes the claims ready, so that the next claim can be sent before that."""
        async with self.claiming:
            if self.in_doubt:
                await self._calls.in_time(self.reconcile())
            self._unanswered = True
            self._before_claim()
            claimed = await self._calls.in_time(ask(self._calls.registration, limit))
            if claimed.claims:
                self.has_claimed = True
                reach("after_claim")
                self.held.extend(sorted(claimed.claims, key=attrgetter("priority")))
                self.any_held.set()
            self._unanswered = False
        if claimed.claims:
            self._on_claims(claimed.claims)
        return claimed

    def remove_held(self, claim: Claim) -> None:
        """Removes a claim that has no attempt, and was finished by hand."""
        with suppress(ValueError):
            self.held.remove(claim)

    # --------------------------------------------------------------------------------------------------------- done

    def take_done(self) -> list[tuple[Attempt, Outcome]]:
        self.any_done.clear()
        batch, self.done = self.done, []
        return batch

    def put_back(self, batch: list[tuple[Attempt, Outcome]]) -> None:
        """Returns a batch whose write failed, to be written again."""
        self.done = batch + self.done
        self.any_done.set()

    def remove(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self.attempts.pop(attempt.claim, None)
        if attempts:
            self.freed.set()

    # -------------------------------------------------------------------------------------------------------- ended

    def lose(self, claim: Claim) -> None:
        """Stops the attempt of a claim that is lost; nothing of it is written."""
        if (attempt := self.attempts.get(claim)) is not None:
            if not attempt.lost:
                self._on_lost(claim)
            attempt.stop(None)

    def lose_all(self) -> None:
        """Stops all attempts; nothing of them is written. Reports no lost claim: the session has ended."""
        self.held.clear()
        for attempt in list(self.attempts.values()):
            attempt.stop(None)

    def release_waiting(self) -> None:
        """Gives back the claims whose handler has not started."""
        for attempt in [attempt for attempt in self.attempts.values() if not attempt.started]:
            attempt.stop(Released())

    def release_all(self) -> None:
        """Stops every attempt and gives its job back at no cost."""
        for attempt in list(self.attempts.values()):
            attempt.stop(Released())

    def stop_all_at_once(self) -> None:
        """Ends the grace of commands that are being stopped."""
        for attempt in list(self.attempts.values()):
            attempt.stop_at_once()

    async def until_empty(self) -> None:
        while self.attempts:
            self.freed.clear()
            await self.freed.wait()

    # ----------------------------------------------------------------------------------------------------- in doubt

    async def reconcile(self) -> None:
        """Asks the store which claims it holds for us: stops attempts that are not among them, gives strays back.

        A claim statement that was under way when its connection broke may be committed even after we asked; then its
        jobs would never run, since their registration lives. So we ask once more, a lease later.
        """
        self.has_claimed = True  # perhaps: an answer is missing
        if self._unanswered:
            self._calls.loop.call_later(self._calls.lease, self.expect_strays)
        self._strays_may_come = False
        try:
            await self._give_strays_back()
        except BaseException:
            self._strays_may_come = True
            raise
        self._unanswered = False

    def expect_strays(self) -> None:
        """Makes the next claim reconcile first."""
        self._strays_may_come = True
        self._on_doubt()

    async def _give_strays_back(self) -> None:
        stored = set(await self._calls.store.held(self._calls.registration))
        for claim in self.attempts.keys() - stored:
            self.lose(claim)
        if self.held:
            known = [claim for claim in self.held if claim in stored]
            self.held.clear()
            self.held.extend(known)
            self.freed.set()
        await release(self._calls, stored - self.attempts.keys() - set(self.held))


async def release(calls: StoreCalls, claims: Iterable[Claim]) -> None:
    """Gives jobs back that no attempt was made for; uses none of their tries."""
    if released := [(claim, decide_safely(Released(), claim, random())) for claim in claims]:
        await finish_all(calls.store.finish, released)


def _state(attempt: Attempt) -> ClaimState:
    if attempt.ended:
        return ClaimState.DONE
    return ClaimState.RUNNING if attempt.started else ClaimState.STARTING

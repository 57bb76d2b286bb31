"""Makes attempts of claims, lets them run, and takes their ends."""

import asyncio
from time import monotonic

from leasehold.model.job import Claim
from leasehold.model.outcome import Outcome
from leasehold.worker.attempt import Attempt, RunContext
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.finish import Finisher, verdict_on
from leasehold.worker.handler_transaction import TransactionContext
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.job import Job
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.prefetch import ClaimBudget
from leasehold.worker.slots import Slots
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads


class AttemptStarter:
    """Turns held claims into attempts, which wait for a slot, run and end."""

    def __init__(
        self,
        ledger: ClaimLedger,
        handlers: Handlers,
        slots: int,
        threads: Threads,
        stuck: StuckHandlers,
        heartbeat: Heartbeat,
        log_buffer: LogBuffer,
        transactions: TransactionContext,
        finisher: Finisher,
        events: EventReporter,
    ) -> None:
        self._ledger = ledger
        self._handlers = handlers
        self._slots = Slots(slots)
        self._context = RunContext(threads, stuck, self._may_begin, self._on_end)
        self._heartbeat = heartbeat
        self._log_buffer = log_buffer
        self._transactions = transactions
        self._finisher = finisher
        self._events = events
        self._cancel_may_be_unseen = False
        self.budget = ClaimBudget(slots)

    async def run(self) -> None:
        """Starts claims as they come. Urgent jobs run before the hundreds behind them are made ready."""
        ledger, held = self._ledger, self._ledger.held
        while True:
            await ledger.any_held.wait()
            while held:
                priority = held[0].priority
                try:
                    self.start_next()
                except Exception:
                    ledger.expect_strays()
                    raise
                if held and held[0].priority > priority:
                    await asyncio.sleep(0)
            ledger.any_held.clear()
            if self._cancel_may_be_unseen:
                self._cancel_may_be_unseen = False
                self._heartbeat.hurry()

    def start_all(self) -> None:
        while self._ledger.held:
            self.start_next()

    def start_next(self) -> None:
        """Makes an attempt of the most urgent held claim."""
        claim = self._ledger.held.popleft()
        handler = self._handlers[claim.definition.key]
        job = Job(claim, self._log_buffer.append, self._transactions)
        attempts = self._ledger.attempts
        attempt = attempts[claim] = Attempt(claim, handler, job, self._context)
        if len(attempts) == 1:  # after the attempt is entered: the heartbeat renews what the ledger knows
            self._heartbeat.hurry_after_a_rest()
        self._slots.enter(attempt, claim.priority)

    def note_cancel(self) -> None:
        """Sends a heartbeat, which learns of cancels; and one more later, if a claim is not known to it yet."""
        self._heartbeat.hurry()
        self._cancel_may_be_unseen = self._ledger.is_growing

    def _may_begin(self, claim: Claim) -> bool:
        """Returns False if this process stood still past its lease; the heartbeat is about to report it."""
        if holds := self._heartbeat.holds:
            self._events.started(claim)
        return holds

    def _on_end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        self._slots.leave(attempt)
        if attempt.forgotten:  # the registration has ended, and its end was reported then
            return
        self.budget.took(monotonic() - attempt.since)
        if outcome is None:
            self._finisher.forget([attempt])
        elif attempt.is_written:
            self._events.ended(attempt.claim, outcome, verdict_on(outcome, attempt.claim))
            self._finisher.forget([attempt])
        else:
            self._ledger.add_done(attempt, outcome)

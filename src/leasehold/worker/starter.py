"""Makes attempts of claims, lets as many run as there are slots, and takes their ends."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from leasehold.config import process_redactor
from leasehold.model.outcome import Outcome
from leasehold.worker.attempt import Attempt, RunContext
from leasehold.worker.claim_loop import ClaimBudget
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.finish import Finisher, verdict_on
from leasehold.worker.handler_transaction import TransactionContext
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.job import Job
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads


class Entrant(Protocol):
    begun: bool
    ended: bool

    def begin(self) -> None: ...


class Slots:
    """Lets `count` attempts run at a time. The others wait in line without a task, in the order of their priority."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lines: dict[int, deque[Entrant]] = {}
        self._letting_in = False

    def enter(self, run: Entrant, priority: int) -> None:
        """Adds an attempt. An urgent one overtakes the hundreds that were claimed ahead and wait for a slot."""
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = deque()
        line.append(run)
        self._let_in()

    def leave(self, run: Entrant) -> None:
        """Frees the slot of an attempt that has ended. An attempt that was stopped in the line had none."""
        if run.begun:
            self._free += 1
            self._let_in()

    def _let_in(self) -> None:
        """Begins attempts while slots are free. Not reentrant: with eager tasks an attempt may end within `begin`."""
        if self._letting_in:
            return
        self._letting_in = True
        try:
            while self._free and self._lines:
                run = self._next()
                if not run.ended:
                    self._free -= 1
                    run.begin()
        finally:
            self._letting_in = False

    def _next(self) -> Entrant:
        priority = min(self._lines)
        line = self._lines[priority]
        run = line.popleft()
        if not line:
            del self._lines[priority]
        return run


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
        state: Any = None,
        processes: HandlerProcesses | None = None,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Calls `on_first` when an attempt is entered and no other one is there."""
        self._on_first = on_first
        self._ledger = ledger
        self._state = state
        self._handlers = handlers
        self._slots = Slots(slots)
        self._context = RunContext(threads, stuck, self._may_begin, self._on_end, processes, events.listeners)
        self._heartbeat = heartbeat
        self._log_buffer = log_buffer
        self._transactions = transactions
        self._finisher = finisher
        self._events = events
        self._redactor = process_redactor()
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
        lines = self._log_buffer
        job = Job(claim, lines.append, self._transactions, self._redactor, lines.drop, self._state)
        if handler.cleanup is not None:  # a command, whose guard looks at the lease by itself
            job._lease = self._heartbeat.lease.descriptor
        attempts = self._ledger.attempts
        attempt = attempts[claim] = Attempt(claim, handler, job, self._context)
        if len(attempts) == 1:
            self._on_first()
        self._slots.enter(attempt, claim.priority)

    def note_cancel(self) -> None:
        """Sends a heartbeat, which learns of cancels; and one more later, if a claim is not known to it yet."""
        self._heartbeat.hurry()
        self._cancel_may_be_unseen = self._ledger.is_growing

    def _may_begin(self, attempt: Attempt) -> bool:
        """Returns False if this process stood still past its lease; the heartbeat is about to report it."""
        if holds := self._heartbeat.holds:
            if self._events.takes_ends:
                attempt.began = monotonic()
            self._events.report_start(attempt.claim)
        return holds

    def _on_end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        self._slots.leave(attempt)
        if attempt.claim not in self._ledger.attempts:  # the registration has ended, and its end was reported then
            return
        now = monotonic()
        self.budget.note_time(now - attempt.since)
        if attempt.began is not None:
            attempt.seconds = now - attempt.began
        if outcome is None:
            self._finisher.discard([attempt])
        elif attempt.is_written:
            self._events.report_ends([(attempt.claim, verdict_on(outcome, attempt), attempt.seconds, outcome)])
            self._finisher.forget([attempt])
        else:
            self._ledger.done.append((attempt, outcome))
            self._ledger.any_done.set()

"""Runs one attempt: from a claim to its outcome."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from types import CoroutineType
from typing import Any

from leasehold.errors import InvalidInput, NoSecretKey, PayloadInvalid, SecretUnreadable
from leasehold.model import payload as payloads
from leasehold.model.isolation import Isolation
from leasehold.model.job import Claim
from leasehold.model.outcome import Canceled, Outcome, Raised, Rejected, Succeeded, TimedOut
from leasehold.runtime.redacted_logs import redact_logs_of_job
from leasehold.telemetry import Listeners
from leasehold.telemetry.attempt_context import current_claim
from leasehold.worker.copies import generation
from leasehold.worker.handler_transaction import give_up
from leasehold.worker.handlers import Handler
from leasehold.worker.job import Job
from leasehold.worker.opened_payload import open_secrets
from leasehold.worker.outcomes import DELIBERATE, failure_of, outcome_of_error
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.runners import HandlerStopped, run_in_process, run_in_thread, start_coroutine
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads
from leasehold.worker.timeouts import Timeouts
from leasehold.worker.tracebacks import trace_of

log = logging.getLogger("leasehold.worker")

# How long a coroutine that was canceled may take to clean up, before its attempt is decided without it.
MARGIN = 5.0


@dataclass(slots=True)
class RunContext:
    """Shared by all attempts of a registration.

    `may_begin` returns whether the lease holds. `on_end` is called with each attempt that ends, and its outcome.
    Without `processes`, handlers with isolation="process" run in this one. `listeners` may act around handlers.
    """

    threads: Threads
    stuck: StuckHandlers
    may_begin: Callable[["Attempt"], bool]
    on_end: Callable[["Attempt", Outcome | None], None]
    processes: HandlerProcesses | None = None
    listeners: Listeners = field(default_factory=Listeners)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    variables: contextvars.Context = field(default_factory=contextvars.copy_context)
    born: int = field(default_factory=generation)
    rollbacks: set[asyncio.Task[None]] = field(default_factory=set)
    timeouts: Timeouts = field(init=False)

    def __post_init__(self) -> None:
        self.timeouts = Timeouts(self.loop)
        if (tracing := self.listeners.tracing) is not None:
            self.variables.run(tracing.attach, None)


@dataclass(frozen=True, slots=True)
class Interruption:
    """How an attempt was interrupted. `stopped`: it ends as `instead`, which is None if its claim is lost."""

    timed_out: bool = False
    stopped: bool = False
    lost: bool = False
    instead: Outcome | None = None


UNINTERRUPTED = Interruption()


class Attempt:
    """One attempt, from waiting for a slot to its outcome. The outcome None means that the lease is lost.

    `began` is when its handler was called, `seconds` how long it ran; both are None if no listener wants to know.
    """

    __slots__ = (
        *("claim", "handler", "job", "since", "begun", "started", "ended", "is_inside", "in_thread_since"),
        *("began", "seconds", "_context", "_interruption", "_task"),
    )

    def __init__(self, claim: Claim, handler: Handler, job: Job, context: RunContext) -> None:
        self.claim = claim
        self.handler = handler
        self.job = job
        self.since = monotonic()
        self.begun = False
        self.started = False
        self.ended = False
        self.is_inside = False
        self.in_thread_since: float | None = None
        self.began: float | None = None
        self.seconds: float | None = None
        self._context = context
        self._interruption = UNINTERRUPTED
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The handler's name, for people."""
        return self.claim.definition.key

    @property
    def _isolation(self) -> Isolation | None:
        return None if self._context.processes is None else self.handler.isolation

    @property
    def _is_in_thread(self) -> bool:
        return not self.handler.is_async and self._isolation is None

    @property
    def lost(self) -> bool:
        """Whether the claim is lost: nothing of the attempt may be written."""
        return self._interruption.lost

    @property
    def span(self) -> str | None:
        """The traceparent of its span, if it is traced."""
        tracing = self._context.listeners.tracing
        return None if tracing is None else tracing.span_of(self.claim)

    @property
    def is_written(self) -> bool:
        """Whether the finish was committed in the handler's own transaction."""
        return self.job._transaction is not None and self.job._transaction.committed

    def begin(self) -> None:
        """Creates the task, once there is a slot, with context variables of its own.

        Without them the task would inherit those of the attempt whose end freed the slot.
        """
        self.begun = True
        name = f"leasehold {self.claim.definition.key} {self.claim.job}"
        self._task = self._context.loop.create_task(self.execute(), name=name, context=self._context.variables.copy())

    async def execute(self) -> None:
        """Runs the handler, ends its transaction, and reports an outcome, whatever the handler does."""
        outcome: Outcome | None = None
        try:
            if self._context.may_begin(self):
                self.started = True
                current_claim.set(self.claim)
                listeners = self._context.listeners
                if listeners.around and (managers := listeners.managers_around(self.claim)):
                    outcome = await self._run_within(managers)
                else:
                    outcome = await self._run_handler()
                if self.job._transaction is not None:
                    outcome = await self._end_transaction(outcome)
        except asyncio.CancelledError as error:
            if self.job._transaction is not None:
                with suppress(asyncio.CancelledError):  # stopped a second time: then the attempt is abandoned
                    await self.job._transaction.roll_back()
            # If nothing stopped the attempt, the handler awaited a task that was canceled: an error like any other.
            stopped = self._interruption.stopped
            outcome = self._interruption.instead if stopped else failure_of(error, self.job._redactor)
        except GeneratorExit:  # the loop was closed
            raise
        except BaseException as error:  # from its transaction; an attempt that does not end would keep its slot
            outcome = failure_of(error, self.job._redactor)
        self._end(outcome)

    async def _run_within(self, managers: Sequence[AbstractContextManager[None]]) -> Outcome:
        with ExitStack() as around:
            for manager in managers:
                around.enter_context(manager)
            return await self._run_handler()

    async def _run_handler(self) -> Outcome:
        """Checks the payload and calls the runner, within the definition's timeout."""
        if self.claim.unusable:
            return Rejected("definition_unreadable", self.claim.unusable)
        try:
            payload = self._check_payload()
        except (NoSecretKey, SecretUnreadable) as error:  # another worker may have the key, or this one later
            return Raised("secret_unreadable", error.happened)
        except InvalidInput as error:
            return Rejected("payload_invalid", self.job._redactor.text(error.happened))
        if self.claim.overdue:
            return Rejected("deadline_passed", "its deadline had passed when it was its turn")
        context, timeout = self._context, self.claim.definition.timeout
        seconds = timeout.total_seconds()
        context.timeouts.watch(self, seconds)
        try:
            if (isolation := self.handler.isolation) is not None and context.processes is not None:
                return await run_in_process(self, payload, isolation, context.processes)
            if not self.handler.is_async:
                return await run_in_thread(self, payload, context.born, context.loop, context.threads)
            outcome = start_coroutine(self, payload, context.born)
            return await outcome if isinstance(outcome, CoroutineType) else outcome
        except BaseException as error:  # SystemExit too
            interruption = self._interruption
            if interruption.timed_out and not interruption.stopped and not isinstance(error, DELIBERATE):
                if isinstance(error, HandlerStopped):
                    return TimedOut(timeout, error.trace)
                return TimedOut(timeout, trace_of(error, self.job._redactor))
            if isinstance(error, asyncio.CancelledError):
                raise
            return outcome_of_error(error, self.job._redactor)
        finally:
            context.timeouts.forget(self, seconds)

    def _check_payload(self) -> Any:
        """Checks the payload against the pinned schema again: the row's writer may not have checked it at all."""
        text = self.claim.payload
        try:
            payload = payloads.decode(text)
        except ValueError as error:
            raise PayloadInvalid(
                f"the payload can't be read: {error}.", fix="Nothing was run. Enqueue the job again."
            ) from error
        if self.claim.definition.secret_fields:
            payload = open_secrets(self.job, payload)
            redact_logs_of_job(self.job._redactor)
            text = payloads.encode_plain(payload)
        self.claim.definition.check(payload)
        return text if self.handler.reads_json else payload

    async def _end_transaction(self, outcome: Outcome) -> Outcome | None:
        """Commits the handler's transaction together with the finish, or rolls it back."""
        transaction = self.job._transaction
        assert transaction is not None
        ended = await transaction.end(outcome)
        if isinstance(ended, Succeeded) and not transaction.committed:
            # The attempt was stopped, its writes were given up, and the handler returned all the same.
            interruption = self._interruption
            return TimedOut(self.claim.definition.timeout) if interruption.timed_out else interruption.instead
        return ended

    # -------------------------------------------------------------------------------------------------- being stopped

    def stop(self, instead: Outcome | None) -> None:
        """Stops the handler; the attempt ends as `instead`. The first call counts, but a lost lease always wins.

        A process is ended. A handler in a thread can't be stopped. If it is canceled, it can see that and end in its
        own way; otherwise it runs on without effect, and its slot is free. The same holds, after a margin, for a
        coroutine that swallows its cancel.
        """
        if self._interruption.stopped and instead is not None:
            return
        if instead is None:
            self._interruption = replace(self._interruption, lost=True)
            self.job._stops_at_once = True
        self.job._request_cancel()
        may_end_in_its_own_way = self.started and isinstance(instead, Canceled) and self._is_in_thread
        if not may_end_in_its_own_way and give_up(self.job):
            self._interruption = replace(self._interruption, stopped=True, instead=instead)
            self._cancel()

    def time_out(self) -> None:
        if self.ended:
            return
        if (left := self._time_left()) > 0:
            self._context.loop.call_later(left, self.time_out)
            return
        if not give_up(self.job):
            return
        self._interruption = replace(self._interruption, timed_out=True)
        self.job._request_cancel()
        self._cancel()

    def stop_at_once(self) -> None:
        """Ends the grace of a command that is being stopped. Other handlers have none."""
        if self.handler.cleanup is not None and self._task is not None and not self.ended:
            self.job._stops_at_once = True
            self._task.cancel()

    @property
    def _margin(self) -> float:
        return MARGIN if self.handler.cleanup is None else self.handler.cleanup

    def _time_left(self) -> float:
        """Counts from the start in a thread or process: waiting for one uses up none of the timeout."""
        if self.handler.is_async and self._isolation is None:
            return 0.0
        timeout = self.claim.definition.timeout.total_seconds()
        return timeout if self.in_thread_since is None else self.in_thread_since + timeout - monotonic()

    def _cancel(self) -> None:
        if self._task is None:
            self._end(self._interruption.instead)
        elif self._task.cancel():
            if self.started:
                self._context.loop.call_later(self._margin, self._abandon)
            else:  # a task that is canceled before its first step never runs
                self._task.add_done_callback(lambda _: self._end(self._interruption.instead))

    def _abandon(self) -> None:
        """Ends the attempt without its handler, which runs on; nothing that it does later counts."""
        if self.ended:
            return
        log.warning(
            "job %s of %s: its handler %s still runs %g s after it was canceled; the attempt ends without it",
            self.claim.job,
            self.claim.tenant,
            self.name,
            self._margin,
        )
        if (transaction := self.job._transaction) is not None:
            rollback = self._context.loop.create_task(transaction.roll_back())
            self._context.rollbacks.add(rollback)
            rollback.add_done_callback(self._context.rollbacks.discard)
        stopped = self._interruption.stopped
        self._end(self._interruption.instead if stopped else TimedOut(self.claim.definition.timeout))

    def _end(self, outcome: Outcome | None) -> None:
        if self.ended:
            return
        self.ended = True
        if self.is_inside:
            self._context.stuck.add(self)
        # A handler may swallow its cancel and return; the claim is lost all the same.
        self._context.on_end(self, None if self.lost and not self.is_written else outcome)

    def leave_handler(self) -> None:
        """Notes that the handler's code has returned. May be called by any thread."""
        if self.ended or not self.handler.is_async:
            self._context.stuck.discard(self)
        self.is_inside = False

    def mark_outside(self) -> None:
        self.is_inside = False

"""One claim → what happened."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.faults import reach
from leasehold.model import payload as payloads
from leasehold.model.job import Claim
from leasehold.model.outcome import Canceled, Outcome, Raised, Rejected, Released, Snoozed, Succeeded, TimedOut
from leasehold.worker.copies import contained, end_a_copy, generation
from leasehold.worker.finish import NOTHING_RETURNED
from leasehold.worker.handler_transaction import give_up
from leasehold.worker.handlers import Handler
from leasehold.worker.job import Fail, Job, RetryLater, Snooze
from leasehold.worker.slots import Timeouts
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import ThreadRefused, Threads
from leasehold.worker.tracebacks import message_of, trace_of

log = logging.getLogger("leasehold.worker")

# How long a coroutine that was canceled may take to clear up, before its attempt is decided without it.
MARGIN = 5.0


@dataclass(slots=True)
class RunContext:
    """What all runs of a registration share. `may_begin` says whether the lease holds; `ended` hears what came of a
    run.
    """

    threads: Threads
    stuck: StuckHandlers
    may_begin: Callable[[Claim], bool]
    ended: Callable[["Run", Outcome | None], None]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    born: int = field(default_factory=generation)
    rollbacks: set[asyncio.Task[None]] = field(default_factory=set)
    timeouts: Timeouts = field(init=False)

    def __post_init__(self) -> None:
        self.timeouts = Timeouts(self.loop)


class Run:
    """One attempt, from waiting for a slot to its outcome. None as the outcome: its lease is lost, write nothing."""

    __slots__ = (
        *("claim", "since", "begun", "started", "ended", "lost", "forgotten", "is_inside"),
        *("_context", "_handler", "_in_thread_since", "_instead", "_job", "_stopped", "_task", "_timed_out"),
    )

    def __init__(self, claim: Claim, handler: Handler, job: Job, bench: RunContext) -> None:
        self.claim = claim
        self.since = monotonic()
        self.begun = False
        self.started = False
        self.ended = False
        self.lost = False
        self.forgotten = False
        self.is_inside = False
        self._handler = handler
        self._job = job
        self._context = bench
        self._stopped = False
        self._timed_out = False
        self._in_thread_since: float | None = None
        self._instead: Outcome | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The handler's name, for people."""
        return self.claim.definition.key

    @property
    def is_written(self) -> bool:
        """Its finish was committed with what it wrote: nobody else has to."""
        return self._job._effects is not None and self._job._effects.committed

    def begin(self) -> None:
        """Has a slot. In a context of its own: whoever ended and so made room must not hand on its variables."""
        self.begun = True
        name = f"leasehold {self.claim.definition.key} {self.claim.job}"
        self._task = self._context.loop.create_task(self._run(), name=name, context=self._context.context.copy())

    def stop(self, instead: Outcome | None) -> None:
        """Stops the handler; the run ends as `instead`. Of several calls the first counts, but a lost lease wins.

        A handler in a thread can't be stopped. Canceled, it is told so and may end in its own way; otherwise it goes
        on unheard, and its slot is free. So does a coroutine that has swallowed its cancel, after a margin.
        """
        if self._stopped and instead is not None:
            return
        self.lost = self.lost or instead is None
        self._job._request_cancel()
        may_end_in_its_own_way = self.started and isinstance(instead, Canceled) and not self._handler.is_async
        if not may_end_in_its_own_way and give_up(self._job):
            self._stopped = True
            self._instead = instead
            self._cancel()

    def time_out(self) -> None:
        if self.ended:
            return
        if (left := self._time_left()) > 0:
            self._context.loop.call_later(left, self.time_out)
            return
        if not give_up(self._job):
            return
        self._timed_out = True
        self._job._request_cancel()
        self._cancel()

    def leave_handler(self) -> None:
        self.is_inside = False

    def _time_left(self) -> float:
        """Counts from the start of the handler's thread: a job that waits for a thread uses up none of its time."""
        if self._handler.is_async:
            return 0.0
        timeout = self.claim.definition.timeout.total_seconds()
        return timeout if self._in_thread_since is None else self._in_thread_since + timeout - monotonic()

    def _cancel(self) -> None:
        if self._task is None:
            self._end(self._instead)
        elif self._task.cancel():
            if self.started:
                self._context.loop.call_later(MARGIN, self._abandon)
            else:  # canceled before its first step, a task has none
                self._task.add_done_callback(lambda _: self._end(self._instead))

    def _abandon(self) -> None:
        """Ends the attempt without its handler, which runs on; nothing that it does later counts."""
        if self.ended:
            return
        log.warning(
            "job %s of %s: its handler %s still runs %g s after it was canceled; the attempt ends without it",
            self.claim.job,
            self.claim.tenant,
            self.name,
            MARGIN,
        )
        if (effects := self._job._effects) is not None:
            rollback = self._context.loop.create_task(effects.roll_back())
            self._context.rollbacks.add(rollback)
            rollback.add_done_callback(self._context.rollbacks.discard)
        self._end(self._instead if self._stopped else TimedOut(self.claim.definition.timeout))

    async def _run(self) -> None:
        """Whatever the handler does becomes an outcome."""
        outcome: Outcome | None = None
        try:
            if self._context.may_begin(self.claim):
                self.started = True
                outcome = await self._outcome()
                if (effects := self._job._effects) is not None:
                    outcome = await effects.end(outcome)
                    if isinstance(outcome, Succeeded) and not effects.committed:
                        # It was stopped and returned all the same, when what it wrote was given up.
                        outcome = TimedOut(self.claim.definition.timeout) if self._timed_out else self._instead
        except asyncio.CancelledError as error:
            if self._job._effects is not None:
                with suppress(asyncio.CancelledError):  # stopped a second time: then it is abandoned
                    await self._job._effects.roll_back()
            # Not stopped: it is the handler's own, as of a canceled task that it waited for, and an error like any.
            outcome = self._instead if self._stopped else _raised(error)
        except GeneratorExit:  # the loop was closed around it
            raise
        except BaseException as error:  # of the end of its transaction: a run that does not end would keep its slot
            outcome = _raised(error)
        self._end(outcome)

    def _end(self, outcome: Outcome | None) -> None:
        if self.ended:
            return
        self.ended = True
        if self.is_inside:
            self._context.stuck.add(self)
        # A handler may swallow its cancel and return; the claim is lost all the same.
        self._context.ended(self, None if self.lost and not self.is_written else outcome)

    async def _outcome(self) -> Outcome:
        if self.claim.unusable:
            return Rejected("definition_unreadable", self.claim.unusable)
        try:
            payload = self._checked_payload()
        except InvalidInput as error:
            return Rejected("payload_invalid", error.happened)
        if self.claim.overdue:
            return Rejected("deadline_passed", "its deadline had passed when it was its turn")
        timeouts, timeout = self._context.timeouts, self.claim.definition.timeout
        seconds = timeout.total_seconds()
        timeouts.watch(self, seconds)
        try:
            if not self._handler.is_async:
                return await self._in_executor(payload)
            outcome = self._first_step(payload)
            return await outcome if isinstance(outcome, CoroutineType) else outcome
        except ThreadRefused:
            return Released()
        except Snooze as snooze:
            return Snoozed(snooze.delay)
        except RetryLater as later:
            return _raised(later, "RetryLater", retry_in=later.delay)
        except Fail as failure:
            return _raised(failure, "Fail", final=True)
        except BaseException as error:  # SystemExit, and whatever else a handler may find to raise
            if self._timed_out and not self._stopped:
                return TimedOut(timeout, trace_of(error))
            if isinstance(error, asyncio.CancelledError):
                raise
            return _raised(error)
        finally:
            timeouts.forget(self, seconds)

    def _checked_payload(self) -> Any:
        """Checked again: the schema is the pinned one, but whoever wrote the row may not have checked at all."""
        text = self.claim.payload
        try:
            payload = payloads.decode(text)
        except ValueError as error:
            raise PayloadInvalid(
                f"the payload can't be read: {error}.", fix="Nothing was run. Enqueue the job again."
            ) from error
        self.claim.definition.check(payload)
        return text if self._handler.reads_json else payload

    def _in_executor(self, payload: Any) -> Awaitable[Outcome]:
        reach("before_run")
        call = partial(contextvars.copy_context().run, self._in_a_thread, payload)
        self._job._in_thread = True
        return self._context.loop.run_in_executor(self._context.threads, call)

    def _first_step(self, payload: Any) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Begins a coroutine. Most end by their first step; only one that waits needs a wrapper, which costs 1 µs."""
        reach("before_run")
        born = self._context.born
        awaitable = self._handler.call(self._job, payload)
        steps = awaitable if awaitable.__class__ is CoroutineType else awaitable.__await__()
        self.is_inside = True
        try:
            rest = contained(steps, steps.send(None), born)
        except StopIteration as returned:
            end_a_copy(born)
            result = returned.value
        except BaseException as error:
            end_a_copy(born, error)
            self._leave_handler()
            raise
        else:
            return self._further_steps(rest)
        self._leave_handler()
        return NOTHING_RETURNED if result is None else _succeeded(result)

    async def _further_steps(self, rest: Awaitable[Any]) -> Outcome:
        try:
            return _succeeded(await rest)
        finally:
            self._leave_handler()

    def _in_a_thread(self, payload: Any) -> Outcome:
        """Also turns StopIteration and GeneratorExit into RuntimeError, as coroutines do.

        A future can't hand these two on: a coroutine that waits for it would wait for ever, or be closed.
        """
        self._in_thread_since = monotonic()
        self.is_inside = True
        job, born = self._job, self._context.born
        try:
            if self.ended:  # stopped while its thread began
                return NOTHING_RETURNED
            outcome = _succeeded(self._handler.call(job, payload))
            end_a_copy(born)
            if job._effects is not None:
                job._effects.end_in_thread(outcome)
            return outcome
        except BaseException as error:
            end_a_copy(born, error)
            if job._effects is not None:
                job._effects.roll_back_in_thread()
            if isinstance(error, StopIteration | GeneratorExit):
                raise RuntimeError(f"the handler raised {type(error).__name__}") from error
            raise
        finally:
            self._leave_handler()

    def _leave_handler(self) -> None:
        if self.ended or not self._handler.is_async:
            self._context.stuck.discard(self)
        self.is_inside = False


def _raised(
    error: BaseException, code: str | None = None, retry_in: timedelta | None = None, final: bool = False
) -> Raised:
    return Raised(code or type(error).__name__, message_of(error), retry_in, final, trace_of(error))


def _succeeded(result: Any) -> Outcome:
    """A retry would run effects again that have already happened, so an unusable result is final."""
    if result is None:
        return NOTHING_RETURNED
    try:
        return Succeeded(payloads.encode_result(result))
    except PayloadInvalid as error:
        return Raised("result_invalid", error.happened, final=True)

"""One claim → what happened."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.faults import reach
from leasehold.model import payload as payloads
from leasehold.model.job import Claim
from leasehold.model.outcome import Canceled, Outcome, Raised, Rejected, Snoozed, Succeeded, TimedOut
from leasehold.worker.effects import give_up
from leasehold.worker.handlers import Handler
from leasehold.worker.job import Fail, Job, RetryLater, Snooze
from leasehold.worker.slots import Timeouts
from leasehold.worker.traces import trace_of

NOTHING_RETURNED = Succeeded()


@dataclass(slots=True)
class Workbench:
    """What all runs of a seat share. `may_begin` says whether the lease holds; `ended` hears what came of a run."""

    threads: Executor
    may_begin: Callable[[Claim], bool]
    ended: Callable[["Run", Outcome | None], None]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    timeouts: Timeouts = field(init=False)

    def __post_init__(self) -> None:
        self.timeouts = Timeouts(self.loop)


class Run:
    """One attempt, from waiting for a slot to its outcome. None as the outcome: its lease is lost, write nothing."""

    __slots__ = (
        *("claim", "since", "begun", "started", "ended"),
        *("_bench", "_handler", "_instead", "_job", "_stopped", "_task", "_timed_out"),
    )

    def __init__(self, claim: Claim, handler: Handler, job: Job, bench: Workbench) -> None:
        self.claim = claim
        self.since = monotonic()
        self.begun = False
        self.started = False
        self.ended = False
        self._handler = handler
        self._job = job
        self._bench = bench
        self._stopped = False
        self._timed_out = False
        self._instead: Outcome | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_written(self) -> bool:
        """Its finish was committed with what it wrote: nobody else has to."""
        return self._job._effects is not None and self._job._effects.committed

    def begin(self) -> None:
        """Has a slot. In a context of its own: whoever ended and so made room must not hand on its variables."""
        self.begun = True
        name = f"leasehold {self.claim.definition.key} {self.claim.job}"
        self._task = self._bench.loop.create_task(self._run(), name=name, context=self._bench.context.copy())

    def stop(self, instead: Outcome | None) -> None:
        """Stops the handler; the run ends as `instead`. Of several calls the first counts, but a lost lease wins.

        A handler in a thread can't be stopped. Canceled, it is told so and may end in its own way; otherwise it goes
        on unheard, and its slot is free.
        """
        if self._stopped and instead is not None:
            return
        self._job._request_cancel()
        may_end_in_its_own_way = self.started and isinstance(instead, Canceled) and not self._handler.is_async
        if not may_end_in_its_own_way and give_up(self._job):
            self._stopped = True
            self._instead = instead
            self._cancel()

    def time_out(self) -> None:
        if not give_up(self._job):
            return
        self._timed_out = True
        self._job._request_cancel()
        self._cancel()

    def _cancel(self) -> None:
        if self._task is None:
            self._end(self._instead)
        elif self._task.cancel() and not self.started:
            # Canceled before its first step, a task has none.
            self._task.add_done_callback(lambda _: self._end(self._instead))

    async def _run(self) -> None:
        """Whatever the handler does becomes an outcome."""
        outcome: Outcome | None = None
        try:
            if self._bench.may_begin(self.claim):
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
        except Exception as error:  # of the end of its transaction: a run that does not end would keep its slot
            outcome = _raised(error)
        self._end(outcome)

    def _end(self, outcome: Outcome | None) -> None:
        if not self.ended:
            self.ended = True
            self._bench.ended(self, outcome)

    async def _outcome(self) -> Outcome:
        try:
            payload = self._checked_payload()
        except InvalidInput as error:
            return Rejected("payload_invalid", error.happened)
        if self.claim.overdue:
            return Rejected("deadline_passed", "its deadline had passed when it was its turn")
        timeouts, timeout = self._bench.timeouts, self.claim.definition.timeout
        seconds = timeout.total_seconds()
        timeouts.watch(self, seconds)
        try:
            result = await self._called(payload)
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
        return _succeeded(result)

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

    def _called(self, payload: Any) -> Awaitable[Any]:
        reach("before_run")
        if self._handler.is_async:
            coroutine: Awaitable[Any] = self._handler.call(self._job, payload)
            return coroutine
        call = partial(contextvars.copy_context().run, self._handler.call, self._job, payload)
        self._job._in_thread = True
        return self._bench.loop.run_in_executor(self._bench.threads, _in_thread, call, self._job)


def _in_thread(call: Callable[[], Any], job: Job) -> Any:
    """No future can hand these two on: who waits for it would wait for ever, or be closed. Coroutines do the same."""
    try:
        result = call()
    except BaseException as error:
        if job._effects is not None:
            job._effects.roll_back_in_thread()
        if isinstance(error, StopIteration | GeneratorExit):
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error
        raise
    if job._effects is not None:
        job._effects.end_in_thread(_succeeded(result))
    return result


def _raised(
    error: BaseException, code: str | None = None, retry_in: timedelta | None = None, final: bool = False
) -> Raised:
    return Raised(code or type(error).__name__, _message(error), retry_in, final, trace_of(error))


def _message(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except Exception as worse:
        return f"it can't say what happened: its text raises {type(worse).__name__}"


def _succeeded(result: Any) -> Outcome:
    """A retry would run effects again that have already happened, so an unusable result is final."""
    if result is None:
        return NOTHING_RETURNED
    try:
        return Succeeded(payloads.encode_result(result))
    except PayloadInvalid as error:
        return Raised("result_invalid", error.happened, final=True)

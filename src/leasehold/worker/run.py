"""One claim → what happened."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import timedelta
from functools import partial
from typing import Any, Self

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.faults import reach
from leasehold.model import payload as payloads
from leasehold.model.job import Claim
from leasehold.model.outcome import Canceled, Outcome, Raised, Rejected, Snoozed, Succeeded, TimedOut
from leasehold.worker.effects import give_up
from leasehold.worker.handlers import Handler
from leasehold.worker.job import Fail, Job, RetryLater, Snooze
from leasehold.worker.traces import trace_of


class Run:
    """One attempt, from waiting for a slot to its outcome. None as the outcome: its lease is lost, write nothing."""

    def __init__(
        self,
        claim: Claim,
        handler: Handler,
        job: Job,
        slots: asyncio.Semaphore,
        threads: Executor,
        begin: Callable[[Claim], bool],
    ) -> None:
        self.claim = claim
        self.started = False
        self._handler = handler
        self._job = job
        self._slots = slots
        self._threads = threads
        self._begin = begin
        self._stopped = False
        self._timed_out = False
        self._loop = asyncio.get_running_loop()
        self._instead: Outcome | None = None
        self._task = asyncio.create_task(self._outcome(), name=f"leasehold {claim.definition.key} {claim.job}")

    @property
    def ended(self) -> bool:
        return self._task.done()

    @property
    def is_written(self) -> bool:
        """Its finish was committed with what it wrote: nobody else has to."""
        return self._job._effects is not None and self._job._effects.committed

    def then(self, ended: Callable[[Self, Outcome | None], None]) -> None:
        """Calls `ended` with the outcome. Whatever the handler does becomes one."""
        self._task.add_done_callback(lambda task: ended(self, self._instead if task.cancelled() else task.result()))

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
            self._task.cancel()

    async def _outcome(self) -> Outcome | None:
        try:
            async with self._slots:
                if not self._begin(self.claim):
                    return None
                self.started = True
                outcome = await self._execute()
                return outcome if self._job._effects is None else await self._job._effects.end(outcome)
        except asyncio.CancelledError as error:
            if self._job._effects is not None:
                await self._job._effects.roll_back()
            # Not stopped: it is the handler's own, as of a canceled task that it waited for, and an error like any.
            return self._instead if self._stopped else _raised(error)

    async def _execute(self) -> Outcome:
        try:
            payload = self._checked_payload()
        except InvalidInput as error:
            return Rejected("payload_invalid", error.happened)
        if self.claim.overdue:
            return Rejected("deadline_passed", "its deadline had passed when it was its turn")
        # Less than asyncio.timeout() does, which costs a tenth of what a job costs in all: the task ends with this.
        limit = self._loop.call_later(self.claim.definition.timeout.total_seconds(), self._time_out)
        try:
            result = await self._call(payload)
        except Snooze as snooze:
            return Snoozed(snooze.delay)
        except RetryLater as later:
            return _raised(later, "RetryLater", retry_in=later.delay)
        except Fail as failure:
            return _raised(failure, "Fail", final=True)
        except BaseException as error:  # SystemExit, and whatever else a handler may find to raise
            if self._timed_out and not self._stopped:
                return TimedOut(self.claim.definition.timeout, trace_of(error))
            if isinstance(error, asyncio.CancelledError):
                raise
            return _raised(error)
        finally:
            limit.cancel()
        return _succeeded(result)

    def _time_out(self) -> None:
        if not give_up(self._job):
            return
        self._timed_out = True
        self._job._request_cancel()
        self._task.cancel()

    def _checked_payload(self) -> Any:
        """Checked again: the schema is the pinned one, but whoever wrote the row may not have checked at all."""
        try:
            payload = payloads.decode(self.claim.payload)
        except ValueError as error:
            raise PayloadInvalid(
                f"the payload can't be read: {error}.", fix="Nothing was run. Enqueue the job again."
            ) from error
        self.claim.definition.check(payload)
        return payload

    async def _call(self, payload: Any) -> Any:
        reach("before_run")
        if self._handler.is_async:
            return await self._handler.call(self._job, payload)
        call = partial(contextvars.copy_context().run, self._handler.call, self._job, payload)
        self._job._in_thread = True
        return await self._loop.run_in_executor(self._threads, _in_thread, call, self._job)


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
        return Succeeded()
    try:
        return Succeeded(payloads.encode_result(result))
    except PayloadInvalid as error:
        return Raised("result_invalid", error.happened, final=True)

"""Runs a handler: a coroutine on the loop, any other function in a thread, and either in a process of its own."""

import asyncio
import contextvars
from asyncio import AbstractEventLoop
from collections.abc import Awaitable
from datetime import timedelta
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, Protocol, cast

from leasehold.faults import reach
from leasehold.model.isolation import Isolation
from leasehold.model.job import Claim, LineKind
from leasehold.model.outcome import Outcome, Raised, Snoozed, Trace
from leasehold.worker.copies import contain, end_a_copy
from leasehold.worker.handlers import Handler
from leasehold.worker.isolated_process import HandlerProcess, NotStarted, describe_end
from leasehold.worker.job import Job
from leasehold.worker.messages import facts_of, outcome_of_message
from leasehold.worker.outcomes import NOTHING_RETURNED, outcome_of_result, redact_outcome, redact_trace
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.threads import Threads

# A job tries so many processes that end before they call its handler.
MOST_PROCESSES = 3


class Running(Protocol):
    """The attempt whose handler is run. `is_inside` is True while the handler's code executes."""

    claim: Claim
    handler: Handler
    job: Job
    is_inside: bool
    ended: bool
    in_thread_since: float | None

    @property
    def span(self) -> str | None: ...

    def leave_handler(self) -> None: ...


def start_coroutine(attempt: Running, payload: Any, born: int) -> "Outcome | CoroutineType[Any, Any, Outcome]":
    """Takes the coroutine's first step. Returns the outcome, or the rest to await.

    Most handlers end within their first step. Only a handler that waits gets a wrapper, which costs 1 µs.
    """
    reach("before_run")
    awaitable = attempt.handler.call(attempt.job, payload)
    steps = awaitable if awaitable.__class__ is CoroutineType else awaitable.__await__()
    attempt.is_inside = True
    try:
        rest = contain(steps, steps.send(None), born)
    except StopIteration as returned:
        end_a_copy(born)
        result = returned.value
    except BaseException as error:
        end_a_copy(born, error)
        attempt.leave_handler()
        raise
    else:
        return cast("CoroutineType[Any, Any, Outcome]", _finish_coroutine(attempt, rest))
    attempt.leave_handler()
    return NOTHING_RETURNED if result is None else outcome_of_result(result, attempt.job._redactor)


async def _finish_coroutine(attempt: Running, rest: Awaitable[Any]) -> Outcome:
    try:
        return outcome_of_result(await rest, attempt.job._redactor)
    finally:
        attempt.leave_handler()


def run_in_thread(
    attempt: Running, payload: Any, born: int, loop: AbstractEventLoop, threads: Threads
) -> Awaitable[Outcome]:
    """Runs the handler in a thread. Raises ThreadRefused, and does not call it, if the system starts no thread."""
    reach("before_run")
    call = partial(contextvars.copy_context().run, _call_in_thread, attempt, payload, born)
    attempt.job._in_thread = True
    return loop.run_in_executor(threads, call)


def _call_in_thread(attempt: Running, payload: Any, born: int) -> Outcome:
    """Calls the handler. Turns StopIteration and GeneratorExit into RuntimeError, as coroutines do.

    A future can't pass these two on: a coroutine that awaits the future would wait for ever, or be closed.
    """
    attempt.in_thread_since = monotonic()
    attempt.is_inside = True
    job = attempt.job
    try:
        if attempt.ended:  # stopped while its thread was started
            return NOTHING_RETURNED
        outcome = outcome_of_result(attempt.handler.call(job, payload), job._redactor)
        end_a_copy(born)
        if job._transaction is not None:
            job._transaction.end_in_thread(outcome)
        return outcome
    except BaseException as error:
        end_a_copy(born, error)
        if job._transaction is not None:
            job._transaction.roll_back_in_thread()
        if isinstance(error, StopIteration | GeneratorExit):
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error
        raise
    finally:
        attempt.leave_handler()


class HandlerStopped(asyncio.CancelledError):
    """A handler in a process of its own was canceled, and its process is ended. `trace` is the place where it was."""

    def __init__(self, trace: Trace | None) -> None:
        super().__init__()
        self.trace = trace


class _IsolatedLog:
    """Takes the lines of a handler in another process, and redacts them once more."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def append(self, text: str, kind: LineKind, progress: float | None) -> bool:
        return self._job._append(text, kind, progress)

    def drop(self, count: int) -> None:
        self._job._drop_lines(self._job._claim, count)


async def run_in_process(
    attempt: Running, payload: Any, isolation: Isolation, processes: HandlerProcesses
) -> Outcome:
    """Runs the handler in a process of its own.

    A process that ends before it has called the handler is replaced. If none can be started, the job is run again
    later, and no try is used up.
    """
    reach("before_run")
    problem = ""
    for _ in range(MOST_PROCESSES):
        try:
            process = await processes.take(isolation)
        except NotStarted as error:
            problem = str(error)
            break
        outcome = await _call_in_process(attempt, payload, process)
        processes.give_back(process)
        if outcome is not None:
            return outcome
        problem = f"its process {describe_end(process.code or 0)}"
    problem = attempt.job._redactor.text(problem)
    delay = processes.pause_after(problem)
    attempt.job.log(f"the process of the handler could not be started: {problem}; run again in {delay:.0f} s")
    return Snoozed(timedelta(seconds=delay))


async def _call_in_process(attempt: Running, payload: Any, process: HandlerProcess) -> Outcome | None:
    """Returns None if the process has ended before it called the handler. Ends it if the attempt is canceled.

    An outcome that the handler chooses while it is stopped counts; an error that it raises then does not. All texts
    are redacted here once more: the process knows the secrets of its environment, but not those of the job.
    """
    attempt.in_thread_since = monotonic()
    claim, redactor = attempt.claim, attempt.job._redactor
    facts = facts_of(claim)
    if (span := attempt.span) is not None:
        facts["trace_context"] = span
    call = {"definition": claim.definition.key, "claim": facts, "payload": payload}
    try:
        answer = await process.run(call, _IsolatedLog(attempt.job))
        attempt.job._cpu = process.cpu_of_call(answer)
    except asyncio.CancelledError:
        answer = await process.cancel()
        attempt.job._cpu = process.cpu_of_call(answer)
        outcome = None if answer is None else redact_outcome(outcome_of_message(answer), redactor)
        if outcome is None or _is_plain_failure(outcome):
            trace = outcome.trace if isinstance(outcome, Raised) else process.place
            raise HandlerStopped(redact_trace(trace, redactor)) from None
        return outcome
    if answer is None:
        if not process.begun:
            return None
        return Raised("process_crashed", f"the process of the handler {describe_end(process.code or 0)}")
    if answer["sick"]:
        process.kill()
    return redact_outcome(outcome_of_message(answer), redactor)


def _is_plain_failure(outcome: Outcome) -> bool:
    return isinstance(outcome, Raised) and not outcome.final and outcome.retry_in is None

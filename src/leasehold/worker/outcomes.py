"""Maps what a handler returns or raises to the outcome of its attempt. Workers and the test tools share this map."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from leasehold.config import process_redactor
from leasehold.errors import PayloadInvalid
from leasehold.model.duration import Duration, read_duration
from leasehold.model.outcome import Outcome, Raised, Rejected, Released, Snoozed, Succeeded, Trace
from leasehold.model.payload import encode_result
from leasehold.model.redaction import Redactor
from leasehold.worker.threads import ThreadRefused
from leasehold.worker.tracebacks import message_of, trace_of

NOTHING_RETURNED = Succeeded()


class Snooze(Exception):
    """Raise it to run again after `delay` ("5s", a timedelta, seconds). No try is used up."""

    def __init__(self, delay: Duration) -> None:
        self.delay = read_duration(delay)
        super().__init__(f"again in {self.delay}")


class RetryLater(Exception):
    """Raise it to fail this try and be retried after `delay` ("5s", a timedelta, seconds), if tries are left."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay = read_duration(delay)
        super().__init__(message or f"retry in {self.delay}")


class Fail(Exception):
    """Raise it when no retry can help. The job ends as `failed`."""


_OUTCOMES = frozenset({Succeeded, Raised, Snoozed, Rejected})

# Exceptions that choose an outcome; a timeout that has passed meanwhile does not replace it.
DELIBERATE = (Snooze, RetryLater, Fail, ThreadRefused)


def outcome_of_result(result: Any, redactor: Redactor | None = None) -> Outcome:
    """Returns the outcome for a return value, redacted; by default, of what the process knows.

    An unusable result is final: a retry would repeat effects that have already happened.
    """
    if result is None:
        return NOTHING_RETURNED
    if type(result) in _OUTCOMES:  # of a command
        return result  # type: ignore[no-any-return]
    redactor = redactor or process_redactor()
    try:
        return Succeeded(redactor.json(encode_result(result)))
    except PayloadInvalid as error:
        return Raised("result_invalid", redactor.text(error.happened), final=True)


def outcome_of_error(error: BaseException, redactor: Redactor | None = None) -> Outcome:
    """Returns the outcome for an exception that the handler raised. Its texts are redacted."""
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case RetryLater():
            return failure_of(error, redactor, "RetryLater", retry_in=error.delay)
        case Fail():
            return failure_of(error, redactor, "Fail", final=True)
        case ThreadRefused():
            return Released()
        case _:
            return failure_of(error, redactor)


def failure_of(
    error: BaseException,
    redactor: Redactor | None = None,
    code: str | None = None,
    retry_in: timedelta | None = None,
    final: bool = False,
) -> Raised:
    message, trace = message_of(error, redactor), trace_of(error, redactor)
    return Raised(code or type(error).__name__, message, retry_in, final, trace)


def redact_outcome(outcome: Outcome, redactor: Redactor) -> Outcome:
    """Returns an outcome of another process without the secrets that this redactor knows."""
    match outcome:
        case Succeeded(result=str(result)):
            return Succeeded(redactor.json(result))
        case Raised():
            trace = redact_trace(outcome.trace, redactor)
            return replace(outcome, message=redactor.text(outcome.message), trace=trace)
        case _:
            return outcome


def redact_trace(trace: Trace | None, redactor: Redactor) -> Trace | None:
    return trace and Trace(trace.where, redactor.text(trace.traceback))

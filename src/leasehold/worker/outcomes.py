"""Maps what a handler returns or raises to the outcome of its attempt. Workers and the test tools share this map."""

from datetime import timedelta
from typing import Any

from leasehold.errors import PayloadInvalid
from leasehold.model.duration import Duration, read_duration
from leasehold.model.outcome import Outcome, Raised, Released, Snoozed, Succeeded
from leasehold.model.payload import encode_result
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


# Exceptions that choose an outcome; a timeout that has passed meanwhile does not replace it.
DELIBERATE = (Snooze, RetryLater, Fail, ThreadRefused)


def outcome_of_result(result: Any) -> Outcome:
    """Returns the outcome for a return value.

    An unusable result is final: a retry would repeat effects that have already happened.
    """
    if result is None:
        return NOTHING_RETURNED
    try:
        return Succeeded(encode_result(result))
    except PayloadInvalid as error:
        return Raised("result_invalid", error.happened, final=True)


def outcome_of_error(error: BaseException) -> Outcome:
    """Returns the outcome for an exception that the handler raised."""
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case RetryLater():
            return failure_of(error, "RetryLater", retry_in=error.delay)
        case Fail():
            return failure_of(error, "Fail", final=True)
        case ThreadRefused():
            return Released()
        case _:
            return failure_of(error)


def failure_of(
    error: BaseException, code: str | None = None, retry_in: timedelta | None = None, final: bool = False
) -> Raised:
    return Raised(code or type(error).__name__, message_of(error), retry_in, final, trace_of(error))

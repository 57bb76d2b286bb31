"""Outcomes of attempts, and `decide`, which turns an outcome into the verdict that an engine writes."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

import orjson

from leasehold.model.bounds import LONGEST
from leasehold.model.definition import OnExhausted
from leasehold.model.job import Claim
from leasehold.model.payload import make_storable, require_json
from leasehold.model.process import ProcessEnd
from leasehold.model.status import AttemptStatus, Status

SHOWN_ERROR = 10_000
SHOWN_PLACE = 300
SHOWN_TRACEBACK = 8_000


@dataclass(frozen=True, slots=True)
class Trace:
    """The place of an error, `app.py:14 in fetch`, and its traceback. For people."""

    where: str
    traceback: str

    def as_json(self) -> str:
        """Returns the attempt's details as JSON that can always be stored."""
        details = {
            "where": make_storable(self.where, SHOWN_PLACE),
            "traceback": make_storable(self.traceback, SHOWN_TRACEBACK),
        }
        return orjson.dumps(details).decode()


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `result` is JSON text from `payload.encode_result`."""

    result: str | None = None

    def __post_init__(self) -> None:
        """Checks the result, so that one that can't be stored fails its own job and not a batch of finishes."""
        if self.result is not None:
            require_json(self.result)


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised. `retry_in` is a delay that the handler chose; `final` means that it forbids a retry."""

    code: str
    message: str
    retry_in: timedelta | None = None
    final: bool = False
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The handler ran longer than its timeout. `trace` is its place then; unknown for a handler in a thread."""

    after: timedelta
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class Canceled:
    """The handler was stopped because of a cancel request."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run again later. Uses no try."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Released:
    """The worker shuts down and gives the job back. Uses no try."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The worker did not renew its lease in time."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The job must not run: its payload no longer fits, or its deadline has passed."""

    code: str
    message: str


Outcome = Succeeded | Raised | TimedOut | Canceled | Snoozed | Released | LeaseLost | Rejected


@dataclass(frozen=True, slots=True)
class Verdict:
    """The values to write for an ended attempt. Holds delays, never instants: the engine owns the clock.

    `free_attempts` counts attempts that use no try; the attempt number, part of the fence, only goes up. `details` is
    JSON text from `Trace.as_json`, `ProcessEnd.as_json` or `with_cpu`.
    """

    status: Status
    attempt: AttemptStatus
    delay: timedelta = timedelta()
    free_attempts: int = 0
    result: str | None = None
    error: str | None = None
    error_code: str | None = None
    exit_code: int | None = None
    details: str | None = None


SUCCEEDED = Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED)


def decide(outcome: Outcome, claim: Claim, jitter: float) -> Verdict:
    """Returns the verdict on one attempt. `jitter` is a random number from [0, 1) for the backoff.

    A job whose cancel was requested is never queued again: the engine turns such a verdict into `canceled`,
    because only the row shows a request that was made a moment ago.
    """
    match outcome:
        case Succeeded(result):
            return SUCCEEDED if result is None else replace(SUCCEEDED, result=result)
        case Raised(code, message, retry_in, final, trace):
            failed = _fail(AttemptStatus.FAILED, code, message, trace)
            return failed if final else _again_or_exhausted(failed, claim, jitter, retry_in)
        case TimedOut(after, trace):
            message = f"ran longer than its timeout of {after.total_seconds():g} s"
            return _again_or_exhausted(_fail(AttemptStatus.TIMEOUT, "timeout", message, trace), claim, jitter)
        case LeaseLost():
            message = f"worker {claim.worker} was not heard of for a whole lease; it may have crashed"
            return _again_or_exhausted(_fail(AttemptStatus.CRASHED, "lease_lost", message), claim, jitter)
        case Canceled():
            return Verdict(Status.CANCELED, AttemptStatus.CANCELED)
        case Snoozed(delay):
            return Verdict(Status.QUEUED, AttemptStatus.SNOOZED, delay=_limit(delay), free_attempts=1)
        case Released():
            return Verdict(Status.QUEUED, AttemptStatus.GIVEN_BACK, free_attempts=1)
        case Rejected(code, message):
            return _fail(AttemptStatus.FAILED, code, message)
        case _:
            assert_never(outcome)


def decide_safely(outcome: Outcome, claim: Claim, jitter: float) -> Verdict:
    """Calls `decide` and never raises: an outcome without a verdict fails its own job and not its batch."""
    try:
        return decide(outcome, claim, jitter)
    except Exception as error:
        return reject_verdict(f"the outcome of the attempt can't be judged: {type(error).__name__}: {error!s:.300}")


def with_process(verdict: Verdict, end: ProcessEnd) -> Verdict:
    """Returns the verdict with the end of the command's process, whatever became of the attempt."""
    return replace(verdict, exit_code=end.exit_code, details=end.as_json())


def with_cpu(verdict: Verdict, seconds: float) -> Verdict:
    """Returns the verdict with the processor time that the attempt used in a process of its own."""
    details = {} if verdict.details is None else orjson.loads(verdict.details)
    return replace(verdict, details=orjson.dumps({**details, "cpu_seconds": seconds}).decode())


def reject_verdict(why: str) -> Verdict:
    """Returns the verdict on an attempt whose own verdict can't be written: final, as the effects happened."""
    return _fail(AttemptStatus.FAILED, "verdict_invalid", why)


def _fail(attempt: AttemptStatus, code: str, message: str, trace: Trace | None = None) -> Verdict:
    return Verdict(
        Status.FAILED,
        attempt,
        error=make_storable(message, SHOWN_ERROR),
        error_code=make_storable(code, SHOWN_ERROR),
        details=trace.as_json() if trace else None,
    )


def _again_or_exhausted(wrong: Verdict, claim: Claim, jitter: float, chosen: timedelta | None = None) -> Verdict:
    if claim.tries >= claim.max_attempts:
        exhausted = claim.definition.on_exhausted
        return replace(wrong, status=Status.FAILED if exhausted is OnExhausted.FAILED else Status.DEAD_LETTER)
    delay = _limit(chosen) if chosen is not None else claim.definition.backoff.delay(claim.tries, jitter)
    return replace(wrong, status=Status.QUEUED, delay=delay)


def _limit(delay: timedelta) -> timedelta:
    """Limits a delay that a handler chose to 0 … LONGEST, so that a finish never fails because of it."""
    return min(max(delay, timedelta()), LONGEST)

"""What happened in an attempt → `decide` → what to write. Rules return values; engines write values."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

import orjson

from leasehold.model.bounds import LONGEST
from leasehold.model.definition import OnExhausted
from leasehold.model.job import Claim
from leasehold.model.payload import made_storable, require_json
from leasehold.model.status import AttemptStatus, Status

SHOWN_ERROR = 10_000
SHOWN_PLACE = 300
SHOWN_TRACEBACK = 8_000


@dataclass(frozen=True, slots=True)
class Trace:
    """Where an error was raised, `app.py:14 in fetch`, and how the handler came there. For people."""

    where: str
    traceback: str

    def as_json(self) -> str:
        """For the attempt's details: whatever its text holds, it can be stored."""
        details = {
            "where": made_storable(self.where, SHOWN_PLACE),
            "traceback": made_storable(self.traceback, SHOWN_TRACEBACK),
        }
        return orjson.dumps(details).decode()


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `result` is JSON text, as `payload.encode_result` makes it."""

    result: str | None = None

    def __post_init__(self) -> None:
        """Here, where only its own job suffers: one that can't be stored would spoil a whole batch of finishes."""
        if self.result is not None:
            require_json(self.result)


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised. `retry_in` is a delay it chose itself; `final` means it said that a retry is no use."""

    code: str
    message: str
    retry_in: timedelta | None = None
    final: bool = False
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """`trace`: where it was; of a handler in a thread, that is not known."""

    after: timedelta
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class Canceled:
    """The handler was stopped because someone asked for it."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run again later. Costs no attempt."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Released:
    """The worker shuts down and gives the job back. Costs no attempt."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The worker was not heard of for a whole lease."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It must not run: its payload no longer fits, or its deadline has passed."""

    code: str
    message: str


Outcome = Succeeded | Raised | TimedOut | Canceled | Snoozed | Released | LeaseLost | Rejected


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to write. It holds delays, never instants: the engine owns the clock.

    `free_attempts` raises the allowance: no try is used, and the number of the attempt, which fences, only goes up.
    `details` is JSON text, as `Trace.as_json` makes it.
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
    """The verdict on one attempt. `jitter`, from [0, 1), is the caller's draw for the backoff's jitter.

    A job whose cancel was requested is never queued again: the engine turns such a verdict into `canceled`,
    because only the row knows about a request that came a moment ago.
    """
    match outcome:
        case Succeeded(result):
            return SUCCEEDED if result is None else replace(SUCCEEDED, result=result)
        case Raised(code, message, retry_in, final, trace):
            failed = _given_up(AttemptStatus.FAILED, code, message, trace)
            return failed if final else _again_or_exhausted(failed, claim, jitter, retry_in)
        case TimedOut(after, trace):
            message = f"ran longer than its timeout of {after.total_seconds():g} s"
            return _again_or_exhausted(_given_up(AttemptStatus.TIMEOUT, "timeout", message, trace), claim, jitter)
        case LeaseLost():
            message = f"worker {claim.worker} was not heard of for a whole lease; it may have crashed"
            return _again_or_exhausted(_given_up(AttemptStatus.CRASHED, "lease_lost", message), claim, jitter)
        case Canceled():
            return Verdict(Status.CANCELED, AttemptStatus.CANCELED)
        case Snoozed(delay):
            return Verdict(Status.QUEUED, AttemptStatus.SNOOZED, delay=_bounded(delay), free_attempts=1)
        case Released():
            return Verdict(Status.QUEUED, AttemptStatus.GIVEN_BACK, free_attempts=1)
        case Rejected(code, message):
            return _given_up(AttemptStatus.FAILED, code, message)
        case _:
            assert_never(outcome)


def decided(outcome: Outcome, claim: Claim, jitter: float) -> Verdict:
    """As `decide`, and never raises: an outcome that can't be judged fails its own job and not its batch."""
    try:
        return decide(outcome, claim, jitter)
    except Exception as error:
        return not_written(f"the outcome of the attempt can't be judged: {type(error).__name__}: {error!s:.300}")


def not_written(why: str) -> Verdict:
    """The verdict on an attempt whose own verdict can't be written. Its effects have happened, so it is final."""
    return _given_up(AttemptStatus.FAILED, "verdict_invalid", why)


def _given_up(attempt: AttemptStatus, code: str, message: str, trace: Trace | None = None) -> Verdict:
    return Verdict(
        Status.FAILED,
        attempt,
        error=made_storable(message, SHOWN_ERROR),
        error_code=made_storable(code, SHOWN_ERROR),
        details=trace.as_json() if trace else None,
    )


def _again_or_exhausted(wrong: Verdict, claim: Claim, jitter: float, chosen: timedelta | None = None) -> Verdict:
    if claim.tries >= claim.max_attempts:
        exhausted = claim.definition.on_exhausted
        return replace(wrong, status=Status.FAILED if exhausted is OnExhausted.FAILED else Status.DEAD_LETTER)
    delay = _bounded(chosen) if chosen is not None else claim.definition.backoff.delay(claim.tries, jitter)
    return replace(wrong, status=Status.QUEUED, delay=delay)


def _bounded(delay: timedelta) -> timedelta:
    """A finish must never fail because of a delay that a handler chose: not in the past, not beyond all dates."""
    return min(max(delay, timedelta()), LONGEST)

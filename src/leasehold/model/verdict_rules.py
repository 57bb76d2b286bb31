"""Which verdicts `decide` can return for a claim. A verdict from elsewhere, as by HTTP, is checked here."""

from collections.abc import Iterator
from datetime import timedelta

import orjson

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.bounds import LONGEST, MAX_INTEGER, storable
from leasehold.model.definition import OnExhausted
from leasehold.model.job import Claim
from leasehold.model.outcome import SHOWN_ERROR, Verdict
from leasehold.model.payload import MAX_BYTES, require_json
from leasehold.model.status import AttemptStatus, Status

MAX_RESULT = 2 * MAX_BYTES
"""Bytes of a result: a redacted one may be longer than the one that its handler returned."""
MAX_DETAILS = 1_000_000
_FREE = frozenset({AttemptStatus.SNOOZED, AttemptStatus.GIVEN_BACK})
_WRONG = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMEOUT, AttemptStatus.CRASHED})


def require_possible(verdict: Verdict, claim: Claim) -> None:
    """Raises InvalidInput for a verdict that `decide` would not return for this claim, whatever the outcome."""
    if problems := list(_problems(verdict, claim)):
        raise InvalidInput(
            f"The verdict on job {claim.job} attempt {claim.attempt} can't be written: {'; '.join(problems)}.",
            fix="Nothing was written. Send a verdict that the rules allow for this attempt.",
        )


def _problems(verdict: Verdict, claim: Claim) -> Iterator[str]:
    allowed = _statuses_after(verdict.attempt, claim)
    if verdict.status not in allowed:
        names = ", ".join(sorted(allowed)) or "nothing"
        yield f"an attempt that is {verdict.attempt} leads to {names} here, and not to {verdict.status}"
    free = int(verdict.attempt in _FREE)
    if verdict.free_attempts != free:
        yield f"free_attempts={verdict.free_attempts!r:.40} is not {free}"
    waits = verdict.status is Status.QUEUED and verdict.attempt is not AttemptStatus.GIVEN_BACK
    if not timedelta() <= verdict.delay <= (LONGEST if waits else timedelta()):
        yield f"a delay of {verdict.delay} is not between 0 and {LONGEST.days if waits else 0} days"
    if verdict.exit_code is not None and not -MAX_INTEGER <= verdict.exit_code <= MAX_INTEGER:
        yield "exit_code is not a number of 32 bits"
    yield from _problems_of_texts(verdict)


def _statuses_after(attempt: AttemptStatus, claim: Claim) -> frozenset[Status]:
    """Returns the statuses that a job can have after an attempt that ended so."""
    if attempt is AttemptStatus.SUCCEEDED:
        return frozenset({Status.SUCCEEDED})
    if attempt is AttemptStatus.CANCELED:
        return frozenset({Status.CANCELED})
    if attempt in _FREE:
        return frozenset({Status.QUEUED})
    if attempt not in _WRONG:
        return frozenset()
    final = {Status.FAILED} if attempt is AttemptStatus.FAILED else set()
    if claim.tries < claim.max_attempts:
        return frozenset({Status.QUEUED, *final})
    given_up = claim.definition.on_exhausted is OnExhausted.FAILED
    return frozenset({Status.FAILED if given_up else Status.DEAD_LETTER, *final})


def _problems_of_texts(verdict: Verdict) -> Iterator[str]:
    has_error = verdict.attempt in _WRONG
    for name in ("error", "error_code"):
        text = getattr(verdict, name)
        if text is not None and not has_error:
            yield f"{name} is given for an attempt that is {verdict.attempt}"
        elif text is not None and (len(text) > SHOWN_ERROR or not storable(text)):
            yield f"{name} has more than {SHOWN_ERROR:,} characters, or one that can't be stored"
    if verdict.result is not None:
        if verdict.attempt is not AttemptStatus.SUCCEEDED:
            yield f"a result is given for an attempt that is {verdict.attempt}"
        yield from _problems_of_json("result", verdict.result, MAX_RESULT)
    if verdict.details is not None:
        yield from _problems_of_json("details", verdict.details, MAX_DETAILS)
        if not verdict.details.startswith("{"):
            yield "details are not a JSON object"


def _problems_of_json(name: str, text: str, most: int) -> Iterator[str]:
    if len(text) > most or len(text.encode(errors="replace")) > most:
        yield f"{name} has more than {most:,} bytes"
        return
    try:
        require_json(text)
    except (PayloadInvalid, orjson.JSONDecodeError) as error:
        yield f"{name} is {getattr(error, 'happened', error)!s:.200}"

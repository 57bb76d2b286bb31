"""Ends the claims of dead workers, and writes each verdict of a batch that the database has refused."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from random import random
from typing import Any

from leasehold.errors import ValueRefused
from leasehold.model.job import Claim
from leasehold.model.outcome import LeaseLost, Verdict, decide_safely, reject_verdict
from leasehold.model.trace_context import with_span
from leasehold.store.fleet import Fleet
from leasehold.telemetry import Tracing

log = logging.getLogger("leasehold.worker")

RECLAIMED_AT_ONCE = 100
Done = Sequence[tuple[Claim, Verdict]]
Finish = Callable[[Done], Awaitable[frozenset[Claim]]]


async def _await(asked: Awaitable[Any]) -> Any:
    return await asked


async def reclaim_orphans(
    store: Fleet, in_time: Callable[[Awaitable[Any]], Awaitable[Any]] = _await, tracing: Tracing | None = None
) -> list[tuple[Claim, Verdict]]:
    """Evicts dead workers. Returns their claims, each with its verdict: the job is queued again, or given up."""
    reclaimed: list[tuple[Claim, Verdict]] = []
    while orphans := await in_time(store.evict(RECLAIMED_AT_ONCE)):
        lost = [(claim, _verdict_on_orphan(claim, tracing)) for claim in orphans]
        written, fenced = await in_time(finish_all(partial(store.finish, reclaimed=True), lost))
        if tracing is not None:
            tracing.drop(fenced)
        ended = [(claim, verdict) for claim, verdict in written if claim not in fenced]
        if not ended:  # others were first, or none of these rows can be ended: they would be found again for ever
            break
        reclaimed += ended
    return reclaimed


def _verdict_on_orphan(claim: Claim, tracing: Tracing | None) -> Verdict:
    verdict = decide_safely(LeaseLost(), claim, random())
    if tracing is None or (span := tracing.begin_crashed(claim)) is None:
        return verdict
    return replace(verdict, details=with_span(verdict.details, span))


async def finish_all(finish: Finish, done: Done) -> tuple[Done, frozenset[Claim]]:
    """Writes every verdict that can be written. Returns the written verdicts, and the claims that were fenced off.

    An error that concerns all of them, such as Unreachable, is raised.
    """
    try:
        return done, await finish(done)
    except ValueRefused as error:
        return await finish_refused(finish, done, error)


async def finish_refused(finish: Finish, done: Done, error: ValueRefused) -> tuple[Done, frozenset[Claim]]:
    """Writes a batch that the database has refused in halves, down to the verdict that can't be written.

    That verdict would otherwise block its whole batch for as long as the worker lives. Its claim ends as failed, with
    the reason.
    """
    if len(done) == 1:
        return await _finish_as_failed(finish, done[0][0], error)
    half = len(done) // 2
    first, fenced_first = await finish_all(finish, done[:half])
    rest, fenced_rest = await finish_all(finish, done[half:])
    return [*first, *rest], fenced_first | fenced_rest


async def _finish_as_failed(finish: Finish, claim: Claim, error: ValueRefused) -> tuple[Done, frozenset[Claim]]:
    done = [(claim, reject_verdict(f"what became of the attempt can't be written: {error.happened}"))]
    log.error("job %s try %d ends as failed: %s", claim.job, claim.tries, error)
    try:
        return done, await finish(done)
    except ValueRefused:
        log.exception("job %s try %d can't be ended, whatever the verdict", claim.job, claim.tries)
        return done, frozenset({claim})

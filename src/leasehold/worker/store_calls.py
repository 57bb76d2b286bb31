"""Calls the store on behalf of one registration: in time, and each verdict of a batch that is refused."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from time import monotonic
from typing import TypeVar

from leasehold.errors import Unreachable, ValueRefused
from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict, reject_verdict
from leasehold.store import Registration, Store
from leasehold.worker.copies import end_a_copy, generation
from leasehold.worker.outage import Outage

log = logging.getLogger("leasehold.worker")

T = TypeVar("T")
Done = Sequence[tuple[Claim, Verdict]]
Finish = Callable[[Done], Awaitable[frozenset[Claim]]]


class StoreCalls:
    """The store, the registration, and how long an answer may take: one lease."""

    def __init__(self, store: Store, registration: Registration, lease: timedelta, outage: Outage) -> None:
        self.store = store
        self.registration = registration
        self.outage = outage
        self.lease = lease.total_seconds()
        self.loop = asyncio.get_running_loop()
        self.born = generation()

    async def in_time(self, asked: Awaitable[T]) -> T:
        """Awaits an answer. After a whole lease none will come on that connection; the store drops it on cancel."""
        end_a_copy(self.born)
        began = monotonic()
        try:
            async with asyncio.timeout(self.lease):
                answer = await asked
        except TimeoutError as error:
            raise Unreachable(
                f"the database did not answer for {self.lease:g} s.", fix="It is asked again."
            ) from error
        self.outage.end(began)
        return answer


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


async def was_written(store: Store, claim: Claim, verdict: Verdict) -> bool:
    """Returns True if this end was written before, and only its answer was lost; False if the claim was lost.

    An attempt is stored without its batch. Its start distinguishes it from another of the same number and worker.
    """
    ended = (claim.attempt, claim.worker, claim.started_at, verdict.attempt)
    attempts = await store.tenant(claim.tenant).attempts(claim.job)
    return any((each.number, each.worker, each.started_at, each.status) == ended for each in attempts)

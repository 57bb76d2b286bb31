"""Calls the store on behalf of one registration, in time."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from time import monotonic
from typing import TypeVar

from leasehold.errors import Unreachable
from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.runtime.outage import Outage
from leasehold.store import Registration, Store
from leasehold.worker.copies import end_a_copy, generation

T = TypeVar("T")


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


async def was_written(store: Store, claim: Claim, verdict: Verdict) -> bool:
    """Returns True if this end was written before, and only its answer was lost; False if the claim was lost.

    An attempt is stored without its batch. Its start distinguishes it from another of the same number and worker.
    """
    ended = (claim.attempt, claim.worker, claim.started_at, verdict.attempt)
    attempts = await store.tenant(claim.tenant).attempts(claim.job)
    return any((each.number, each.worker, each.started_at, each.status) == ended for each in attempts)

"""Finds out whether an end that the store refuses was written before."""

from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.store import Store


async def was_written(store: Store, claim: Claim, verdict: Verdict) -> bool:
    """Returns True if this end was written before, and only its answer was lost; False if the claim was lost.

    An attempt is stored without its batch. Its start distinguishes it from another of the same number and worker.
    """
    ended = (claim.attempt, claim.worker, claim.started_at, verdict.attempt)
    attempts = await store.tenant(claim.tenant).attempts(claim.job)
    return any((each.number, each.worker, each.started_at, each.status) == ended for each in attempts)

"""Whose end was written, when the store refuses one."""

from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.store import Store


async def was_written(store: Store, claim: Claim, verdict: Verdict) -> bool:
    """False: the claim was lost, and nothing is written. True: this end was before, and only its answer was lost.

    An attempt is stored without its batch. Its start tells it from another one of the same number and worker.
    """
    ended = (claim.attempt, claim.worker, claim.started_at, verdict.attempt)
    attempts = await store.tenant(claim.tenant).attempts(claim.job)
    return any((each.number, each.worker, each.started_at, each.status) == ended for each in attempts)

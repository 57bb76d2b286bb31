"""Explains why a job does not run: facts from the store, reasons from the model."""

from datetime import UTC, datetime, timedelta

from leasehold.model.explain import explain as explain_facts
from leasehold.model.explanation import Explanation
from leasehold.model.job import JobId, TenantId
from leasehold.operations.jobs import unknown_job
from leasehold.store import Fleet


async def explain(store: Fleet, tenant: TenantId, job: JobId) -> Explanation:
    """Returns the conditions of a claim, each with its state. Changes nothing. Raises UnknownJob."""
    asked = datetime.now(UTC)
    facts = await store.tenant(tenant).facts(job)
    if facts is None:
        raise unknown_job(tenant, job)
    return explain_facts(facts, _skew(facts.now, asked, datetime.now(UTC)))


def _skew(now: datetime, asked: datetime, answered: datetime) -> timedelta:
    """Returns how far the clock here is surely ahead: the engine read its own between question and answer."""
    if now < asked:
        return asked - now
    return min(answered - now, timedelta())

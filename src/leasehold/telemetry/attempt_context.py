"""The attempt that runs here: in the task or thread of a handler, and in those that the handler starts."""

from contextvars import ContextVar
from typing import Any

from leasehold.model.job import Claim

current_claim: ContextVar[Claim | None] = ContextVar("leasehold_claim", default=None)
"""The claim whose handler runs in this context. The worker sets it; reading it costs nothing but for log lines."""


def attempt_fields() -> dict[str, Any]:
    """Returns the facts of the attempt that runs here, by the names that log lines use; empty elsewhere."""
    claim = current_claim.get()
    return {} if claim is None else fields_of_claim(claim)


def fields_of_claim(claim: Claim) -> dict[str, Any]:
    return {
        "job_id": claim.job,
        "tenant_id": claim.tenant,
        "definition_key": claim.definition.key,
        "attempt_no": claim.attempt,
        "worker_id": claim.worker,
    }

"""Makes claims for the tests of the rules: a test names only the fields that matter to it."""

from datetime import UTC, datetime

from leasehold.model.definition import Definition
from leasehold.model.job import Claim, JobId, TenantId, WorkerId

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


def a_claim(
    *,
    attempt: int = 1,
    max_attempts: int = 5,
    free_attempts: int = 0,
    definition: Definition | None = None,
    tenant: str = "acme",
    job: str = "0197c000-0000-7000-8000-000000000001",
    worker: str = "w-1",
    batch: int = 1,
    payload: str = "{}",
    version: int = 1,
) -> Claim:
    return Claim(
        tenant=TenantId(tenant),
        job=JobId(job),
        attempt=attempt,
        worker=WorkerId(worker),
        batch=batch,
        definition=definition or Definition("send_mail"),
        version=version,
        payload=payload,
        max_attempts=max_attempts,
        free_attempts=free_attempts,
        queued=NOON.timestamp(),
        started=NOON.timestamp(),
    )

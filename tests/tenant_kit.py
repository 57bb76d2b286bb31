"""The tenant's side of a test: it enqueues jobs, and looks at them.

Two kits build on it: Bench claims and finishes by hand (tests/store), Shop has workers that run (tests/worker).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from leasehold.model.job import Attempt, JobId, JobRecord, LogLine, NewJob, TenantId, tenant_id
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Store, TenantJobs

ACME = tenant_id("acme")
OTHER = tenant_id("other")

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class TenantKit:
    """The jobs of one tenant."""

    def __init__(self, store: Store, tenant: TenantId = ACME) -> None:
        self.store = store
        self.tenant = tenant
        self.jobs: TenantJobs = store.tenant(tenant)

    async def enqueue(self, definition: str = "report", **fields: Any) -> JobId:
        (placed,) = await self.jobs.enqueue([NewJob(definition=definition, **fields)])
        assert placed.created, f"{placed.id} was there before"
        return placed.id

    async def enqueue_many(self, count: int, definition: str = "report", **fields: Any) -> list[JobId]:
        placed = await self.jobs.enqueue([NewJob(definition=definition, **fields) for _ in range(count)])
        return [each.id for each in placed]

    async def job(self, job: JobId) -> JobRecord:
        found = await self.jobs.get(job)
        assert found is not None, f"job {job} does not exist"
        return found

    async def status(self, job: JobId) -> Status:
        return (await self.job(job)).status

    async def history(self, job: JobId) -> list[tuple[int, AttemptStatus]]:
        return [(attempt.number, attempt.status) for attempt in await self.jobs.attempts(job)]

    async def statuses(self, job: JobId) -> list[AttemptStatus]:
        """The statuses of all attempts, whose numbers have no gap."""
        history = await self.history(job)
        assert [number for number, _ in history] == list(range(1, len(history) + 1))
        return [status for _, status in history]

    async def last_attempt(self, job: JobId) -> Attempt:
        return (await self.jobs.attempts(job))[-1]

    async def lines(self, job: JobId, attempt: int = 1) -> Sequence[LogLine]:
        return await self.jobs.lines(job, attempt)

"""Reports the jobs that triggers have made: by an emit in a producer, or by a scheduler, which may be a worker."""

from collections.abc import Iterable
from datetime import UTC, datetime

from leasehold.model.job import JobId, Source, TenantId
from leasehold.telemetry.events import JobEnqueued
from leasehold.telemetry.listeners import Listeners


def report_made_jobs(listeners: Listeners, source: Source, made: Iterable[tuple[TenantId, str, JobId]]) -> None:
    """Reports jobs, each given by its tenant, definition and id: one event for each tenant and definition."""
    if not listeners.wants(JobEnqueued):
        return
    groups: dict[tuple[TenantId, str], list[JobId]] = {}
    for tenant, definition, job in made:
        groups.setdefault((tenant, definition), []).append(job)
    at = datetime.now(UTC)
    for (tenant, definition), jobs in groups.items():
        listeners.tell(
            JobEnqueued(
                at=at,
                tenant=tenant,
                definition=definition,
                count=len(jobs),
                created=len(jobs),
                source=source,
                job=jobs[0] if len(jobs) == 1 else None,
            )
        )

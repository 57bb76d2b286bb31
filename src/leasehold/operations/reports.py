"""Reports what producers have done to the listeners of their app, in the caller's thread."""

from collections.abc import Iterable
from datetime import UTC, datetime

from leasehold.model.event_plan import Emitted
from leasehold.model.job import EnqueueResult, Source, TenantId
from leasehold.telemetry import EventEmitted, JobEnqueued, Listeners, TriggerDecided
from leasehold.telemetry.made_jobs import report_made_jobs


def report_enqueue(listeners: Listeners, tenant: TenantId, definition: str, placed: EnqueueResult) -> None:
    """Reports one job: a new one, or the one that holds its key or id."""
    if listeners.wants(JobEnqueued):
        listeners.tell(
            JobEnqueued(
                at=datetime.now(UTC),
                tenant=tenant,
                definition=definition,
                count=1,
                created=int(placed.created),
                source=Source.MANUAL,
                job=placed.id,
            )
        )


def report_bulk(listeners: Listeners, tenant: TenantId, counted: Iterable[tuple[str, int, int]]) -> None:
    """Reports the jobs of one call: for each definition how many there are, and how many of them are new."""
    if listeners.wants(JobEnqueued):
        at = datetime.now(UTC)
        for definition, count, created in counted:
            listeners.tell(
                JobEnqueued(
                    at=at, tenant=tenant, definition=definition, count=count, created=created, source=Source.MANUAL
                )
            )


def report_emit(listeners: Listeners, emitted: Emitted) -> None:
    """Reports an event, what triggers decided about it, and its jobs; not again for a call that was repeated."""
    if not emitted.created:
        return
    at = datetime.now(UTC)
    if listeners.wants(EventEmitted):
        listeners.tell(EventEmitted(at=at, tenant=emitted.tenant, name=emitted.name, jobs=len(emitted.definitions)))
    if listeners.wants(TriggerDecided):
        for each in emitted.decisions:
            listeners.tell(
                TriggerDecided(
                    at=at,
                    tenant=each.tenant,
                    trigger=each.trigger,
                    kind=each.kind.value,
                    source=Source.EVENT,
                    job=each.job,
                )
            )
    made = ((emitted.tenant, definition, job) for job, definition in emitted.definitions.items())
    report_made_jobs(listeners, Source.EVENT, made)

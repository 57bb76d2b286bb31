"""The health of a queue: states of its workers, and what keeps jobs from being run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from leasehold.engine import Finding, Severity
from leasehold.model.duration import span
from leasehold.model.job import TenantId
from leasehold.model.status import Status
from leasehold.store import Filter, Store, WorkerRecord

# Shares of a lease. A worker sends a heartbeat after each third.
LATE, STALE = 1 / 2, 2 / 3
# Figures of a minute are added up a moment after it has ended.
TOLERATED_LAG = timedelta(minutes=3)
# The newest queued jobs, of which one may be due.
LOOKED_AT = 20


class WorkerState(StrEnum):
    """How long a worker has been silent, by its lease: half of it, two thirds, all of it.

    One that drains starts no job, and leaves when those that it runs have ended.
    """

    LIVE = "live"
    DRAINING = "draining"
    LATE = "late"
    STALE = "stale"
    GONE = "gone"


def state_of(worker: WorkerRecord, now: datetime) -> WorkerState:
    lease = worker.lease_expires_at - worker.last_seen_at
    silent = now - worker.last_seen_at
    if silent >= lease:
        return WorkerState.GONE
    if silent > STALE * lease:
        return WorkerState.STALE
    if worker.drains_since is not None:
        return WorkerState.DRAINING
    return WorkerState.LATE if silent > LATE * lease else WorkerState.LIVE


@dataclass(frozen=True, slots=True)
class FleetState:
    """The workers at a moment of the engine's clock."""

    workers: Sequence[WorkerRecord]
    now: datetime

    def of(self, *states: WorkerState) -> list[WorkerRecord]:
        return [each for each in self.workers if state_of(each, self.now) in states]

    def serving(self, tenant: TenantId | None) -> list[WorkerRecord]:
        """Returns the workers that hold a lease and start jobs of a tenant, or any jobs for None."""
        return [
            each
            for each in self.workers
            if state_of(each, self.now) is not WorkerState.GONE
            and each.drains_since is None
            and (tenant is None or each.serves.tenants is None or tenant in each.serves.tenants)
        ]


async def read_fleet(store: Store) -> FleetState:
    return FleetState(await store.workers(), await store.now())


async def has_ready_jobs(store: Store, tenant: TenantId | None) -> bool | None:
    """Returns whether a job of the tenant, or of any tenant, is due and waits; None if the newest ones don't tell.

    No index lists the due jobs of a tenant, and a search for them would read all jobs that are scheduled.
    """
    queued = Filter(statuses=(Status.QUEUED,))
    found = await (
        store.find_all_tenants(queued, None, LOOKED_AT)
        if tenant is None
        else store.tenant(tenant).find(queued, None, LOOKED_AT)
    )
    if any(job.due for job in found.jobs):
        return True
    return None if found.next is not None else False


async def examine_figures(store: Store) -> Finding:
    """Tells how far the figures of charts are behind."""
    if not store.abilities.series:
        return Finding("figures", Severity.OK, "this engine keeps none over time")
    progress = await store.series_progress()
    lag = progress.now - progress.minutes
    if lag <= TOLERATED_LAG:
        return Finding("figures", Severity.OK, f"added up until {span(lag)} ago")
    return Finding(
        "figures",
        Severity.WARNING,
        f"the figures of charts end {span(lag)} ago: a worker adds them up, and none has since",
        fix="Start one: leasehold worker TARGET.",
    )

"""The database as a witness: every transition of every job, and the jobs as the store shows them at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.chaos import history
from tests.faults.chaos.history import Entry
from tests.store.bench import all_jobs

from leasehold.model.job import JobRecord, TenantId
from leasehold.model.status import AttemptStatus
from leasehold.store import Store, TenantJobs

Fence = tuple[str, int, str]


@dataclass(frozen=True)
class Transition:
    """A write of a job. `was` is "" for a new job, and `became` is "" for one that leaves the table of live jobs."""

    was: str
    became: str
    attempt_was: int
    attempt: int
    worker: str


@dataclass(frozen=True)
class Written:
    """The writes that the engine itself noted: the transitions of each job, and the effects of its successes."""

    audit: Mapping[str, Sequence[Transition]] = field(default_factory=dict)
    effects: Mapping[str, Sequence[Fence]] = field(default_factory=dict)


@dataclass(frozen=True)
class Final:
    """A job that has ended."""

    job: str
    status: str
    attempt: int
    worker: str
    forgiven: int
    max_attempts: int
    result: Mapping[str, object] | None

    @property
    def fence(self) -> Fence:
        return self.job, self.attempt, self.worker


@dataclass(frozen=True)
class Testimony:
    """All that the three witnesses say, after everything has come to rest."""

    history: Sequence[Entry]
    audit: Mapping[str, Sequence[Transition]]
    effects: Mapping[str, Sequence[Fence]]
    finals: Mapping[str, Final]
    unfinished: frozenset[str]
    reclaimed: int


async def testimony(
    store: Store, tenants: Sequence[TenantId], histories: Sequence[Path], written: Written
) -> Testimony:
    found = {tenant: await all_jobs(store.tenant(tenant), page=500) for tenant in tenants}
    jobs = [job for listed in found.values() for job in listed]
    again = [(store.tenant(job.tenant), job) for job in jobs if job.attempt > 1]
    return Testimony(
        history=[entry for path in histories for entry in history.read(path)],
        audit=written.audit,
        effects=written.effects,
        finals={job.id: _final(job) for job in jobs if job.status.final},
        unfinished=frozenset(job.id for job in jobs if not job.status.final),
        reclaimed=sum([await _reclaimed(handle, job) for handle, job in again]),
    )


async def _reclaimed(handle: TenantJobs, job: JobRecord) -> int:
    return sum(attempt.status is AttemptStatus.CRASHED for attempt in await handle.attempts(job.id))


def _final(job: JobRecord) -> Final:
    return Final(job.id, job.status, job.attempt, job.worker or "", job.free_attempts, job.max_attempts, job.result)

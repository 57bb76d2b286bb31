"""Events of `leasehold dev`: from its workers, from changes in the database, and its own messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from itertools import islice
from typing import Literal

from leasehold.cli.format import utc_now
from leasehold.model.job import JobId, JobRecord, Source, TenantId, WorkerId
from leasehold.model.status import DisplayState, Status
from leasehold.telemetry import (
    Event,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    JobStarted,
    TimedEvent,
    WorkerJoined,
)

REMEMBERED = 10_000
MOST_TENANTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueued(TimedEvent):
    """A job appeared in the database. `due_in`: how long after its enqueue it is due."""

    event: Literal["job.queued"] = "job.queued"
    tenant: TenantId
    job: JobId
    definition: str
    state: DisplayState
    due_in: float
    source: Source | None
    created_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged(TimedEvent):
    """A job changed in the database: another worker, or a person, has moved it to `state`.

    `worker` runs it or ran it last; None for a job that waits again, or was canceled before it ran. `seconds` is how
    long an ended job ran. Changes between two reads are not shown.
    """

    event: Literal["job.changed"] = "job.changed"
    tenant: TenantId
    job: JobId
    definition: str
    worker: WorkerId | None
    state: DisplayState
    attempt: int
    tries: int
    max_attempts: int
    seconds: float | None
    error: str | None
    error_code: str | None
    retry_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsCounted(TimedEvent):
    """Stands for `lines` lines about jobs that came faster than people read; `text` counts them, for people."""

    event: Literal["jobs.counted"] = "jobs.counted"
    lines: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKilled(TimedEvent):
    event: Literal["worker.killed"] = "worker.killed"
    pid: int
    running: int


class Topic(StrEnum):
    """Topics of the supervisor's messages: first the checklist of a start, then later events."""

    APP = "app"
    DATABASE = "database"
    MIGRATIONS = "migrations"
    WORKER = "worker"
    API = "api"
    CONSOLE = "console"
    WATCHING = "watching"
    CHANGED = "changed"
    READY = "ready"
    BROKEN = "broken"
    NO_JOBS = "no_jobs"
    ENDED = "ended"
    UNREADABLE = "unreadable"
    OTHER_DEV = "other_dev"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevMessage(TimedEvent):
    event: Literal["dev.message"] = "dev.message"
    topic: Topic
    text: str


SingleJobEvent = (
    JobQueued | JobChanged | JobStarted | JobLogged | JobEnded | JobGivenBack | JobDiscarded | JobReclaimed
)
DevEvent = Event | JobQueued | JobChanged | JobsCounted | WorkerKilled | DevMessage


class Stage(IntEnum):
    """How far an attempt is; a later stage is larger."""

    RUNNING = 0
    OVER = 1
    FINAL = 2


@dataclass(slots=True)
class _Shown:
    """How much of a job was shown: up to this stage of this attempt. `unsure` was seen once, and may be shown."""

    due_in: float
    due_at: datetime
    attempt: int = 0
    stage: Stage = Stage.OVER
    unsure: tuple[int, Stage] | None = None


class EventFeed:
    """Decides which events and changes are shown, in a sensible order: queued comes before started.

    Our own workers send events. Changes by other workers can only be seen in the database.
    """

    def __init__(self) -> None:
        self._shown: dict[tuple[TenantId, JobId], _Shown] = {}
        self._open: dict[tuple[TenantId, JobId], None] = {}
        self._our_workers: set[WorkerId] = set()

    def remember(self, jobs: Iterable[JobRecord]) -> None:
        """Remembers jobs that were there before, without showing them."""
        for job in jobs:
            self._add_record(job).attempt = job.attempt
            self._note(job.tenant, job.id, job.attempt, _stage(job.status))

    def read_jobs(self, jobs: Iterable[JobRecord]) -> Iterator[DevEvent]:
        """Yields the events of jobs as the database lists them, newest first."""
        for job in reversed(list(jobs)):
            place = (job.tenant, job.id)
            if place in self._shown:
                self._shown[place] = self._shown.pop(place)  # jobs in sight are forgotten last
            else:
                self._add_record(job)
                yield _enqueue_event_of(job)
            if self._is_unseen(job):
                yield _change_event_of(job)

    def read_event(self, event: Event) -> Iterator[DevEvent]:
        """Yields the events of a worker's event. Announces a job that started before it was seen."""
        match event:
            case WorkerJoined():
                self._our_workers.add(event.worker)
            case JobStarted():
                if (event.tenant, event.job) not in self._shown:
                    self._add(event.tenant, event.job, _Shown(0.0, event.queued_at))
                    if event.attempt == 1:
                        yield _enqueue_event_before(event)
                if event.waited is not None:
                    due_in = self._shown[event.tenant, event.job].due_in
                    event = replace(event, waited=max(0.0, event.waited - max(0.0, due_in)))
                self._note(event.tenant, event.job, event.attempt, Stage.RUNNING)
            case JobEnded() | JobReclaimed():
                self._note(event.tenant, event.job, event.attempt, _stage(event.status))
            case JobGivenBack():
                self._note(event.tenant, event.job, event.attempt, Stage.OVER)
        yield event

    def open_jobs(self, now: datetime, besides: Iterable[JobRecord], most: int) -> Mapping[TenantId, Sequence[JobId]]:
        """Returns jobs that are due and have not ended, as far as was shown, by tenant; `most` of them, in turn.

        They are of 10 tenants at most, since each tenant costs a statement. Jobs `besides` these were just seen.
        """
        just_seen = {(job.tenant, job.id) for job in besides}
        due = (place for place in self._open if place not in just_seen and self._shown[place].due_at <= now)
        chosen: dict[TenantId, list[JobId]] = {}
        for tenant, job in islice(due, most):
            if tenant in chosen or len(chosen) < MOST_TENANTS:
                chosen.setdefault(tenant, []).append(job)
        for place in [(tenant, job) for tenant, jobs in chosen.items() for job in jobs]:
            self._open[place] = self._open.pop(place)  # its turn comes last
        return chosen

    def forget(self, tenant: TenantId, jobs: Iterable[JobId]) -> None:
        """Forgets deleted jobs."""
        for job in jobs:
            self._open.pop((tenant, job), None)

    def _is_unseen(self, job: JobRecord) -> bool:
        """Returns whether a state was not shown, and no worker of ours will report it. The second read decides.

        The database does not say which worker ended an attempt of a job that waits again. If that worker is one of
        ours, its event arrives between two reads.
        """
        shown, stands = self._shown[job.tenant, job.id], (job.attempt, _stage(job.status))
        if stands <= (shown.attempt, shown.stage) or job.worker in self._our_workers:
            return False
        if shown.unsure != stands:
            shown.unsure = stands
            return False
        self._note(job.tenant, job.id, *stands)
        return True

    def _add_record(self, job: JobRecord) -> _Shown:
        due_in = (job.scheduled_for - job.queued_at).total_seconds()
        return self._add(job.tenant, job.id, _Shown(due_in, job.scheduled_for))

    def _add(self, tenant: TenantId, job: JobId, shown: _Shown) -> _Shown:
        self._shown[tenant, job] = shown
        self._open[tenant, job] = None
        if len(self._shown) > REMEMBERED:
            oldest = next(iter(self._shown))
            del self._shown[oldest]
            self._open.pop(oldest, None)
        return shown

    def _note(self, tenant: TenantId, job: JobId, attempt: int, stage: Stage) -> None:
        if shown := self._shown.get((tenant, job)):
            shown.attempt, shown.stage = attempt, stage
            if stage is Stage.FINAL:
                self._open.pop((tenant, job), None)
            else:
                self._open[tenant, job] = None


def _stage(status: Status) -> Stage:
    if status is Status.RUNNING:
        return Stage.RUNNING
    return Stage.FINAL if status.final else Stage.OVER


def _enqueue_event_of(job: JobRecord) -> JobQueued:
    """Makes the event of an enqueue; a job that was claimed meanwhile was ready before."""
    return JobQueued(
        at=job.queued_at,
        tenant=job.tenant,
        job=job.id,
        definition=job.definition,
        state=job.display if job.status in (Status.QUEUED, Status.BLOCKED) else DisplayState.READY,
        due_in=max(0.0, (job.scheduled_for - job.queued_at).total_seconds()),
        source=job.source,
        created_by=job.created_by,
    )


def _enqueue_event_before(started: JobStarted) -> JobQueued:
    return JobQueued(
        at=started.queued_at,
        tenant=started.tenant,
        job=started.job,
        definition=started.definition,
        state=DisplayState.READY,
        due_in=0.0,
        source=None,
        created_by=None,
    )


def _change_event_of(job: JobRecord) -> JobChanged:
    ran = job.finished_at - job.started_at if job.finished_at and job.started_at else None
    again = job.status is Status.QUEUED and not job.due
    return JobChanged(
        at=job.finished_at or (job.started_at if job.status is Status.RUNNING else None) or utc_now(),
        tenant=job.tenant,
        job=job.id,
        definition=job.definition,
        worker=job.worker,
        state=job.display,
        attempt=job.attempt,
        tries=job.tries,
        max_attempts=job.max_attempts,
        seconds=ran.total_seconds() if ran else None,
        error=None if job.status in (Status.RUNNING, Status.SUCCEEDED) else job.last_error,
        error_code=None if job.status in (Status.RUNNING, Status.SUCCEEDED) else job.last_error_code,
        retry_in=max(0.0, (job.scheduled_for - utc_now()).total_seconds()) if again else None,
    )

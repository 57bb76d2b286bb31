"""The typed events of workers, producers and schedulers.

definition.changed   a definition in the code is new or different; emitted before the worker joins
definition.unavailable   the worker does not serve a definition, since its program is not on this machine
worker.joined ──▶ job.claimed ──▶ job.started ──▶ job.logged … ──┬──▶ job.ended      the verdict is written
                                                                 ├──▶ job.given_back the worker stops; uses no try
                                                                 └──▶ job.discarded  nothing is written
                  job.lease_lost, job.finish_refused come before job.discarded: they tell why
                  job.reclaimed                      another worker ended the attempt of a dead worker
worker.listening  the worker listens for wakes again, or can't listen and polls
worker.left, worker.registration_lost                the registration has ended
wake.received, worker.polled                         why a worker looked for work, and how many jobs it got
database.lost, database.back                         one outage of the database, seen by a worker or a scheduler
heartbeat.late, loop.lag, loop.blocked               the health of a worker's process
schedules.fired, trigger.decided                     a schedule or an event has made a job, or no job
job.enqueued, event.emitted                          jobs were enqueued, also by a trigger; an event was emitted

Times are those of this machine, for people; every decision uses the database's clock.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import orjson

from leasehold.model.job import JobId, LineKind, Source, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedEvent:
    at: datetime

    def as_json(self) -> str:
        """Returns one line of JSON: `event` is the name, times are ISO 8601 in UTC, durations are seconds."""
        return orjson.dumps(self, option=orjson.OPT_UTC_Z).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(TimedEvent):
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined(WorkerEvent):
    """The worker has a registration. `listens`: it expects wakes; if it can't listen, `WorkerListening` follows."""

    event: Literal["worker.joined"] = "worker.joined"
    pid: int
    slots: int
    definitions: tuple[str, ...]
    listens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerListening(WorkerEvent):
    """The worker listens again, or can't listen and polls."""

    event: Literal["worker.listening"] = "worker.listening"
    listens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLeft(WorkerEvent):
    event: Literal["worker.left"] = "worker.left"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRegistrationLost(WorkerEvent):
    """The worker lost its registration: it stops its runs, and joins again with a new id."""

    event: Literal["worker.registration_lost"] = "worker.registration_lost"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChanged(WorkerEvent):
    """`worker`, which is about to join, has registered a definition of its code; `text` shows the difference."""

    event: Literal["definition.changed"] = "definition.changed"
    definition: str
    version: int
    created: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionUnavailable(WorkerEvent):
    """`worker`, which is about to join, does not serve a definition of its code; its jobs wait for other workers."""

    event: Literal["definition.unavailable"] = "definition.unavailable"
    definition: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(WorkerEvent):
    """An event of one attempt: `worker` holds its claim, or held it."""

    tenant: TenantId
    job: JobId
    definition: str
    attempt: int
    tries: int
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaimed(JobEvent):
    """A claim has brought the job to this worker. `waited`: seconds from the enqueue to the first claim."""

    event: Literal["job.claimed"] = "job.claimed"
    queued_at: datetime
    waited: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(JobEvent):
    """The handler is called now. `waited`: seconds from the enqueue to the first claim; None for later claims."""

    event: Literal["job.started"] = "job.started"
    queued_at: datetime
    waited: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogged(JobEvent):
    """A log line or progress of the handler, at once."""

    event: Literal["job.logged"] = "job.logged"
    text: str
    kind: LineKind
    progress: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(JobEvent):
    """The attempt's verdict is written. If `status` is queued, the job runs again after `retry_in` seconds.

    Such a job ends as canceled instead if a cancel request arrives together with its verdict. `where` is the place of
    the error in the app's code: `app.py:14 in fetch`.
    """

    event: Literal["job.ended"] = "job.ended"
    status: Status
    attempt_status: AttemptStatus
    seconds: float | None
    error: str | None
    error_code: str | None
    where: str | None = None
    retry_in: float | None

    @property
    def will_retry(self) -> bool:
        """Whether the attempt failed and the job runs again."""
        return self.error_code is not None and self.status is Status.QUEUED

    @property
    def is_dead(self) -> bool:
        return self.status is Status.DEAD_LETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGivenBack(JobEvent):
    """The worker stops; the job is queued again and the attempt uses no try."""

    event: Literal["job.given_back"] = "job.given_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(JobEvent):
    """No verdict is written: the lease was lost, or the worker ended before it could write one."""

    event: Literal["job.discarded"] = "job.discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(JobEvent):
    """This worker has lost its claim, and stops the handler: another worker may have the job now."""

    event: Literal["job.lease_lost"] = "job.lease_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFinishRefused(JobEvent):
    """The store has refused the end of an attempt whose claim was lost meanwhile."""

    event: Literal["job.finish_refused"] = "job.finish_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReclaimed(JobEvent):
    """`worker` did not renew its lease in time; the worker `by` has written the verdict on its attempt.

    `by` is None if an API server has, which does so for workers over HTTP.
    """

    event: Literal["job.reclaimed"] = "job.reclaimed"
    by: WorkerId | None
    status: Status
    error: str | None
    error_code: str | None
    retry_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesFired(TimedEvent):
    """A scheduler has fired schedules that were due, and made so many jobs."""

    event: Literal["schedules.fired"] = "schedules.fired"
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeReceived(WorkerEvent):
    """A notification reached the worker. `channel` is work, cancel, operation, due, schedule or heartbeat."""

    event: Literal["wake.received"] = "wake.received"
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled(WorkerEvent):
    """The worker has asked for jobs, and got so many.

    `reason` is wake, due (a due time has come), fallback, deputy, busy (it had got some before) or start.
    """

    event: Literal["worker.polled"] = "worker.polled"
    reason: str
    claimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLost(TimedEvent):
    """A worker or a scheduler can't reach the database, and waits. `worker` is None without a registration."""

    event: Literal["database.lost"] = "database.lost"
    worker: WorkerId | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseBack(TimedEvent):
    """The database has answered again, after so many seconds."""

    event: Literal["database.back"] = "database.back"
    worker: WorkerId | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLate(WorkerEvent):
    """A heartbeat was answered so many seconds after it was due."""

    event: Literal["heartbeat.late"] = "heartbeat.late"
    late_by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLag(WorkerEvent):
    """A look at the worker's event loop, twice a second while jobs run: a call on it waited so many seconds."""

    event: Literal["loop.lag"] = "loop.lag"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked(WorkerEvent):
    """The worker's event loop did not run for so many seconds: code that should await has blocked it.

    `definitions` are those of the handlers that were seen in it, `where` the place in their code. Both are empty if
    the code was not a handler's.
    """

    event: Literal["loop.blocked"] = "loop.blocked"
    seconds: float
    definitions: tuple[str, ...] = ()
    jobs: tuple[JobId, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnqueued(TimedEvent):
    """A producer or a trigger has enqueued jobs of one definition: `count` in one call, of which `created` are new.

    In a transaction of the caller, a rollback comes later, and is not told.
    """

    event: Literal["job.enqueued"] = "job.enqueued"
    tenant: TenantId
    definition: str
    count: int
    created: int
    source: Source
    job: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEmitted(TimedEvent):
    """A producer has emitted an event, which has made so many jobs."""

    event: Literal["event.emitted"] = "event.emitted"
    tenant: TenantId
    name: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecided(TimedEvent):
    """A trigger has decided: `kind` is fired, deduped, skipped, missed or error.

    `lag`: seconds from the fire time to the decision, for a schedule. `tenant` is empty for a decision about all
    tenants.
    """

    event: Literal["trigger.decided"] = "trigger.decided"
    tenant: TenantId
    trigger: str
    kind: str
    source: Source
    lag: float | None = None
    job: JobId | None = None


Event = (
    DefinitionChanged
    | DefinitionUnavailable
    | WorkerJoined
    | WorkerListening
    | WorkerLeft
    | WorkerRegistrationLost
    | JobStarted
    | JobLogged
    | JobEnded
    | JobGivenBack
    | JobDiscarded
    | JobReclaimed
    | SchedulesFired
    | JobClaimed
    | LeaseLost
    | StaleFinishRefused
    | WakeReceived
    | Polled
    | DatabaseLost
    | DatabaseBack
    | HeartbeatLate
    | LoopLag
    | LoopBlocked
    | JobEnqueued
    | EventEmitted
    | TriggerDecided
)

"""Typed events of a worker, for observers such as the terminal, metrics and traces.

    worker = Worker(engine_for(url).open, handlers, observe=lambda event: print(event.as_json()))

definition.changed   a definition in the code is new or different; emitted before the worker joins
definition.unavailable   the worker does not serve a definition, since its program is not on this machine
worker.joined ──▶ job.started ──▶ job.logged … ──┬──▶ job.ended      the verdict is written
                                                 ├──▶ job.given_back the worker stops; uses no try
                                                 └──▶ job.discarded  nothing is written, usually after a lost lease
                  job.reclaimed                      another worker ended the attempt of a dead worker
worker.listening  the worker listens for wakes again, or can't listen and polls
worker.left, worker.registration_lost                the registration has ended
schedules.fired   a scheduler of its own has made jobs

Times are those of this machine, for people; every decision uses the database's clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import orjson

from leasehold.model.job import JobId, LineKind, TenantId, WorkerId
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGivenBack(JobEvent):
    """The worker stops; the job is queued again and the attempt uses no try."""

    event: Literal["job.given_back"] = "job.given_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(JobEvent):
    """No verdict is written: the lease was lost, or the worker ended before it could write one."""

    event: Literal["job.discarded"] = "job.discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReclaimed(JobEvent):
    """`worker` did not renew its lease in time; the worker `by` has written the verdict on its attempt."""

    event: Literal["job.reclaimed"] = "job.reclaimed"
    by: WorkerId
    status: Status
    error: str | None
    error_code: str | None
    retry_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesFired(TimedEvent):
    """A scheduler has fired schedules that were due, and made so many jobs."""

    event: Literal["schedules.fired"] = "schedules.fired"
    jobs: int


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
)
Observer = Callable[[Event], None]
"""Called on the worker's event loop, so it must be quick. The worker ignores its exceptions."""


def ignore_events(event: Event) -> None:
    """Ignores events; a worker with this observer creates none."""

"""What happens in a worker, as typed events for whoever observes it: the terminal now, metrics and traces later.

    worker = Worker(engine_for(url).open, handlers, observe=lambda event: print(event.as_json()))

definition.changed   what the code says of a job is new or different; said before the worker joins
worker.joined ──▶ job.started ──▶ job.said … ──┬──▶ job.ended        its verdict is written
                                               ├──▶ job.given_back   the worker stops; it costs no attempt
                                               └──▶ job.discarded    nothing is written: a lost lease, mostly
                  job.reclaimed                      a dead worker's attempt, ended by a living one
worker.listening  it listens for wakes again, or can't and polls
worker.left, worker.registration_lost                        how a registration ends

Times are this machine's, for people; only the database's clock decides anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import orjson

from leasehold.model.job import JobId, LineKind, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    at: datetime

    def as_json(self) -> str:
        """One object on one line: its `event` names it, times are ISO 8601 in UTC, lengths of time are seconds."""
        return orjson.dumps(self, option=orjson.OPT_UTC_Z).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class OfWorker(Happened):
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined(OfWorker):
    """It has a registration. `listens`: it means to be woken; one that finds that it can't says so by
    `WorkerListening`.
    """

    event: Literal["worker.joined"] = "worker.joined"
    pid: int
    slots: int
    definitions: tuple[str, ...]
    listens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerListening(OfWorker):
    """This has changed: it listens again, or it can't listen and polls."""

    event: Literal["worker.listening"] = "worker.listening"
    listens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLeft(OfWorker):
    event: Literal["worker.left"] = "worker.left"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeatLost(OfWorker):
    """Its runs are stopped, and it joins again under a new id."""

    event: Literal["worker.registration_lost"] = "worker.registration_lost"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChanged(OfWorker):
    """`worker`, which is about to join, has registered what its code says; `text` has the difference, for people."""

    event: Literal["definition.changed"] = "definition.changed"
    definition: str
    version: int
    created: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfJob(OfWorker):
    """About one attempt, by its claim: `worker` is who holds it or held it."""

    tenant: TenantId
    job: JobId
    definition: str
    attempt: int
    tries: int
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(OfJob):
    """Its handler is called now. `waited`: from enqueue to its first claim; None for later ones."""

    event: Literal["job.started"] = "job.started"
    queued_at: datetime
    waited: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSaid(OfJob):
    """A log line or progress, as soon as it is said."""

    event: Literal["job.said"] = "job.said"
    text: str
    kind: LineKind
    progress: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(OfJob):
    """The attempt's verdict is written. `status` queued: the job runs again, `retry_in` seconds later.

    Such a job ends as canceled instead when someone asks for that in the very moment of its verdict. `where` is the
    place in the app's code that an error came from: `app.py:14 in fetch`.
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
class JobGivenBack(OfJob):
    """Its worker stops; the job is queued again and the attempt has cost nothing."""

    event: Literal["job.given_back"] = "job.given_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiscarded(OfJob):
    """Nothing of this attempt is written: its lease was lost, or its worker ended before it could write the end."""

    event: Literal["job.discarded"] = "job.discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReclaimed(OfJob):
    """`worker` was not heard of for a whole lease; another has written the verdict on its attempt."""

    event: Literal["job.reclaimed"] = "job.reclaimed"
    by: WorkerId
    status: Status
    error: str | None
    error_code: str | None
    retry_in: float | None


Event = (
    DefinitionChanged
    | WorkerJoined
    | WorkerListening
    | WorkerLeft
    | WorkerSeatLost
    | JobStarted
    | JobSaid
    | JobEnded
    | JobGivenBack
    | JobDiscarded
    | JobReclaimed
)
Observer = Callable[[Event], None]
"""Called on the worker's event loop, so it must be quick. What it raises does the worker no harm."""


def nobody(event: Event) -> None:
    """Observes nothing; for a worker that has no other observer, no events are made."""

"""Facts that decide whether a claim takes a job, as an engine reads them. Reasons are made of them in explain.py.

They name no other tenant and no job of another tenant: a tenant may ask why its own job does not run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from leasehold.model.job import JobId, JobRecord, WorkerId
from leasehold.model.limits import Scope

COUNTED_AHEAD = 100
"""Jobs that are ahead of a job are counted up to this number."""


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """The running job of a scope that started first. `job` is None if it belongs to another tenant."""

    job: JobId | None
    started_at: datetime


@dataclass(frozen=True, slots=True)
class ScopeState:
    """A tenant or a definition as a claim sees it: its pause, its limit, and how many of its jobs run.

    `running` is counted up to `max_running`, and only if there is a limit; then `oldest` started first.
    """

    scope: Scope
    paused_because: str | None = None
    paused_since: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    max_running: int | None = None
    running: int = 0
    oldest: LimitHolder | None = None

    @property
    def is_full(self) -> bool:
        return self.max_running is not None and self.running >= self.max_running


@dataclass(frozen=True, slots=True)
class LaneState:
    """A definition for one tenant. `workers` counts the live workers that serve it, `elsewhere` those that serve the
    definition for other tenants only.
    """

    active: bool
    workers: int
    scopes: tuple[ScopeState, ...] = ()
    elsewhere: int = 0
    known: bool = True


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker as it concerns one lane.

    alive     its lease holds
    running   the jobs that it holds; None if they were not counted
    listens   it can be woken; None if the engine can't tell
    """

    id: WorkerId
    host: str
    pid: int
    version: str
    slots: int
    definitions: tuple[str, ...]
    serves_definition: bool
    serves_tenant: bool
    alive: bool
    last_seen_at: datetime
    lease_expires_at: datetime
    running: int | None = None
    listens: bool | None = None

    @property
    def serves(self) -> bool:
        """Whether it could run the job now."""
        return self.alive and self.serves_definition and self.serves_tenant

    @property
    def free_slots(self) -> int:
        return max(0, self.slots - (self.running or 0))

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, slots=True)
class LastWorker:
    """The worker that last ended a job of the definition, and when. `name` is None if only its id is known."""

    id: WorkerId
    name: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session of the database whose transaction holds the job: claims pass over it.

    `session` names it for an administrator. Facts that the reader may not see are None.
    """

    session: str
    application: str | None = None
    state: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Everything that an engine knows about the start of one job, at the moment `now` of its clock.

    ahead          waiting jobs of the tenant that come first, counted up to COUNTED_AHEAD
    version_known  the version of the definition that the job was enqueued under exists
    workers        live workers and those whose lease has just run out, the ones that serve the job first
    last_worker    looked for if no live worker serves the definition; None if no recent job of the tenant tells
    key_holder     the other job that holds the dedupe key of an ended one: a retry would be refused
    """

    now: datetime
    job: JobRecord
    lane: LaneState
    workers: Sequence[WorkerState] = ()
    ahead: int = 0
    locked_by: LockHolder | None = None
    version_known: bool = True
    last_worker: LastWorker | None = None
    key_holder: JobId | None = None

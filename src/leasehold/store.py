"""The seam: what a worker, a tenant's door and an administrator need of an engine, and nothing else.

Engines implement these Protocols and pass one conformance suite. Where they honestly differ, `Abilities` says so.
Every verb that writes for an attempt takes the Claim and is fenced by it: job, attempt, worker and batch must
all still match. Only the engine's clock judges what is due, expired or over.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_moment, problems_of_text
from leasehold.model.definition import Change, Definition, Registered
from leasehold.model.duration import Duration
from leasehold.model.explain import LaneState
from leasehold.model.job import (
    Attempt,
    Claim,
    EnqueueResult,
    JobId,
    JobRecord,
    LogLine,
    NewJob,
    Source,
    TenantId,
    WorkerId,
)
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.model.outcome import Verdict
from leasehold.model.status import Status


@dataclass(frozen=True, slots=True)
class Abilities:
    caller_transaction: bool
    exact_caps: bool
    priorities: bool
    wakes: bool
    fenced_logs: bool


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a worker can run: the definitions it has registered, for these tenants (None: for all)."""

    definitions: tuple[str, ...]
    tenants: tuple[TenantId, ...] | None = None


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker says about itself, for people."""

    host: str
    pid: int
    version: str = ""
    slots: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker's registration. It ends when the worker leaves or is evicted; whoever joins again gets a new one."""

    worker: WorkerId
    serves: Subscription


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    id: WorkerId
    facts: WorkerFacts
    serves: Subscription
    running: int
    started_at: datetime
    last_seen_at: datetime
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """Claims, and what the wake chain needs to know: may there be more, and how long until the next job is due.

    From `prepare_to_sleep`, no claims and more=True means: a producer is in flight, ask again in a moment.
    """

    claims: Sequence[Claim]
    more: bool
    next_due: timedelta | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """`alive` False: the registration is gone, stop every run. `orphans`: claims without a living registration wait
    for `evict`.

    `next_due` is about what this registration serves and may start, as is `work_waits`: something is ready now.
    `strays`: the registration holds claims that were not among those to be renewed, and that began more than a lease
    ago, so their answer is not under way any more. `held` names them.
    """

    alive: bool
    lost: frozenset[Claim]
    cancels: frozenset[Claim]
    orphans: bool
    strays: bool
    next_due: timedelta | None
    work_waits: bool = False


class Wake(StrEnum):
    """A hint, never data: there may be work, or one of this worker's jobs shall be canceled.

    HEARTBEAT is what this registration's own `renew` sent, if asked for a probe: the listener hears.
    """

    WORK = "work"
    CANCEL = "cancel"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class DueWork:
    """Work of a definition comes due, so long from now. The worker that was woken for it looks exactly then."""

    definition: str
    wait: timedelta


class FinishAnswer(StrEnum):
    """Finished, if the transaction is kept. Else roll back: the claim is lost, or its transaction has ended."""

    FINISHED = "finished"
    FENCED = "fenced"
    ENDED = "ended"


class FinishingTransaction(Protocol):
    """A transaction that a handler writes in, and the worker ends. Of a `blocking` one nothing is to be awaited.

    Once it has begun, the handler writes by `connection`. `finish` answers with a FinishAnswer. `commit` and
    `rollback` also close what the handler brought, or take back what was lent; `abandon` drops it without a word.
    """

    @property
    def blocking(self) -> bool: ...

    @property
    def connection(self) -> Any: ...

    def begin(self) -> Any: ...

    def finish(self, result: str | None) -> Any: ...

    def commit(self) -> Any: ...

    def rollback(self) -> Any: ...

    def abandon(self) -> None: ...


class Fleet(Protocol):
    """What a worker needs."""

    @property
    def abilities(self) -> Abilities: ...

    def tenant(self, tenant: TenantId) -> "TenantJobs": ...

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        """Registers a worker under a new boot-unique id, with a lease that `renew` extends."""

    async def renew(
        self,
        registration: Registration,
        held: Sequence[Claim],
        lease: timedelta,
        *,
        look: bool = False,
        probe: bool = False,
    ) -> Renewal:
        """Extends the lease of the registration, and so of all that it holds; ends the registrations of the dead.

        `look` also asks whether work waits. `probe` sends Wake.HEARTBEAT to this registration's own `wakes`.
        """

    async def leave(self, registration: Registration) -> None:
        """Ends the registration. Claims that it still holds are orphans from then on."""

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        """Takes up to `limit` due jobs, tenants in turn, within a tenant by priority and then age.

        Attempts count here. Jobs that came due are promoted by the same call. An evicted registration gets nothing
        and raises RegistrationLost.
        """

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        """Writes the verdicts, durably. Returns the claims that were fenced off: nothing was written for those.

        A verdict that would queue the job again ends it as canceled if that was requested meanwhile. What ends and
        what is queued again are written one after the other: repeated after an error, some may be refused that were
        written before. Claims that were `reclaimed` from workers that are gone delay no finish of a worker's own.
        """

    def transaction(self, claim: Claim, given: object | None) -> FinishingTransaction:
        """For what this claim's handler writes, by what it brings or, for None, by a connection of the engine's.

        Only where `abilities.caller_transaction`. The job's row is left alone until `finish`: a cancel never waits.
        """

    async def evict(self, limit: int) -> Sequence[Claim]:
        """Ends the registrations whose lease has run out, and returns claims that have no living registration.

        They stay as they are until someone finishes them; of two that try, one is fenced off.
        """

    async def held(self, registration: Registration) -> Sequence[Claim]:
        """What the store says this registration holds: the truth after a reply was lost."""

    async def prepare_to_sleep(self, registration: Registration, limit: int = 1) -> Claimed:
        """The sleep protocol. Neither claims nor more: from now on a wake is sure to come; sleep until `next_due`."""

    def wakes(self, registration: Registration) -> AsyncGenerator[Wake | DueWork, None]:
        """Wakes for this registration, and times at which work comes due.

        Each (re)connection begins with one WORK, since wakes may have been missed before.

        Raises CannotListen where none would ever arrive.
        """

    async def wake_another(self, registration: Registration) -> None:
        """Passes a wake on: wakes sleepers that can run what is ready among what this registration serves."""

    async def append_log(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        """Appends log lines and progress. Returns the claims that were fenced off. A repeated line is kept once."""

    async def prune(self, limit: int) -> int:
        """Deletes up to `limit` ended jobs whose retention is over, with attempts and lines; returns how many.

        Dedupe keys that are held no longer go as well, in batches of that size.
        """

    async def workers(self) -> Sequence[WorkerRecord]: ...


class CancelAnswer(StrEnum):
    """Canceled at once, or requested of the worker that runs it; what had ended, or never was, stays as it is."""

    CANCELED = "canceled"
    REQUESTED = "requested"
    ENDED = "ended"
    UNKNOWN = "unknown"


class RetryAnswer(StrEnum):
    QUEUED = "queued"
    ACTIVE = "active"
    CHANGED = "changed"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class RescheduleAnswer(StrEnum):
    RESCHEDULED = "rescheduled"
    NOT_WAITING = "not_waiting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Filter:
    """Everything given must match; an empty tuple matches anything.

    `due` and `tried` tell queued jobs apart: by the engine's clock, and by whether attempts lie behind them. Jobs
    that do not wait are due.
    """

    statuses: tuple[Status, ...] = ()
    definitions: tuple[str, ...] = ()
    source: Source | None = None
    correlation_id: str | None = None
    due: bool | None = None
    tried: bool | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"Nothing can be listed by this filter: {'; '.join(problems)}.",
                fix="Nothing was read. Correct the values.",
            )

    def _problems(self) -> Iterator[str]:
        for name in ("created_after", "created_before"):
            if (moment := getattr(self, name)) is not None:
                yield from problems_of_moment(name, moment)
        if self.correlation_id is not None:
            yield from problems_of_text("correlation_id", self.correlation_id)
        for definition in self.definitions:
            yield from problems_of_text("definition", definition)


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first. `next` is an opaque cursor for the following page; None: this was the last."""

    jobs: Sequence[JobRecord]
    next: str | None


class Prepared(Protocol):
    """Jobs on their way into a caller's transaction: the tenant is admitted, one statement is left to be sent."""

    @property
    def count(self) -> int: ...


class Caller(Protocol):
    """A connection or session of the caller's, in whose transaction jobs are enqueued.

    It is used only in the caller's own thread (`blocking`) or on the caller's own loop, and never committed, rolled
    back or closed. What is refused leaves its transaction usable.
    """

    @property
    def described(self) -> str: ...

    @property
    def begin(self) -> str:
        """How its users say that a transaction begins."""

    @property
    def blocking(self) -> bool:
        """Whether it has `place` and `commits_at_once`, or their twins to be awaited."""

    def commits_at_once(self) -> bool:
        """No transaction is open, and none will begin by itself."""

    async def acommits_at_once(self) -> bool: ...

    def place(self, prepared: Prepared) -> Sequence[EnqueueResult]: ...

    async def aplace(self, prepared: Prepared) -> Sequence[EnqueueResult]: ...


class BulkTransaction(Protocol):
    """A transaction that is being filled. It commits when its block ends, and wakes who can run what it has got."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        """May be called again before it has answered: they are taken in the order of the calls."""


class TenantJobs(Protocol):
    """The tenant's door: no verb takes a tenant id, and none can reach another tenant."""

    async def prepare(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> Prepared:
        """All that can be done before a `Caller` is used, so that its transaction holds no lock for it.

        Without `wakes` the enqueue wakes no worker when it is committed.
        """

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        """All or none, in the order given; within the caller's transaction if one is passed that can be awaited.

        Payloads are checked to be plain JSON. That they fit their definition's schema is for whoever knows the
        definitions, before this, and for the worker, before it runs them.
        """

    def bulk_transaction(self) -> AbstractAsyncContextManager[BulkTransaction]:
        """For more jobs than one call should hold: `enqueue` again and again, and all of it is there, or none."""

    async def get(self, job: JobId) -> JobRecord | None: ...

    async def get_many(self, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        """Returns the jobs that there are, by one statement, in no order."""

    async def find(self, where: Filter, cursor: str | None, limit: int) -> Page: ...

    async def counts(self, cap: int) -> Mapping[Status, int]:
        """Jobs by status, each counted up to `cap` and no further."""

    async def attempts(self, job: JobId) -> Sequence[Attempt]: ...

    async def lines(self, job: JobId, attempt: int, after: int = 0) -> Sequence[LogLine]: ...

    async def wait_until_final(self, job: JobId, wait: Duration) -> JobRecord | None:
        """The job once it is final, woken not polled; None when `wait` is over or there is no such job."""

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        """What waits is canceled at once; what runs gets a request, and its worker a wake."""

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        """Queues final jobs again: same id, history kept, fresh allowance, dedupe checked again.

        The caller names the attempt it saw, so that two retries make one run.
        """

    async def reschedule(
        self, jobs: Sequence[JobId], delay: Duration | None = None, priority: int | None = None
    ) -> Mapping[JobId, RescheduleAnswer]:
        """Moves waiting jobs; a delay of zero means now. None leaves as it is."""

    async def definitions(self) -> Sequence[Registered]: ...


@dataclass(frozen=True, slots=True)
class ScopeRecord:
    """A tenant or definition with its limit and its pause, each None where it has none."""

    scope: Scope
    max_running: int | None
    paused_because: str | None
    paused_until: datetime | None


class Administration(Protocol):
    """What no tenant may do."""

    async def sync_definitions(self, found: Sequence[Definition]) -> Sequence[Change]:
        """Registers what the code says; all or none. One change for each, in the order given.

        Content that differs becomes a new version, or makes the older one current again that has it. What waits
        keeps its own.
        """

    async def definitions(self) -> Sequence[Registered]: ...

    async def definition_version(self, key: str, version: int) -> Definition | None:
        """Returns the definition as it was in this version, which never changes; None if there is no such version."""

    async def tenants(self, limit: int = 1000) -> Sequence[TenantId]:
        """Returns the first `limit` tenants, by name."""

    async def add_tenant(self, tenant: TenantId) -> bool:
        """Registers a tenant before its first job. Returns whether it is new."""

    async def strict_tenants(self) -> bool:
        """Returns whether enqueue refuses a tenant that was never registered."""

    async def set_strict_tenants(self, strict: bool) -> None:
        """Makes every enqueue refuse a tenant that was never registered, or register it at its first job again.

        Tenants that have enqueued before are registered.
        """

    async def find_all_tenants(self, where: Filter, cursor: str | None, limit: int) -> Page:
        """Jobs of all tenants, newest first; two of one id by tenant."""

    async def tenants_with_job(self, job: JobId) -> Sequence[TenantId]:
        """Which tenants have a job of that id: one, unless they brought it themselves."""

    async def scopes(self, limit: int = 1000) -> "Sequence[ScopeRecord]":
        """Returns the first `limit` tenants and definitions that have a limit or a pause now."""

    async def now(self) -> datetime:
        """Returns what the engine's clock says: pauses and due times are judged by it."""

    async def lanes(self, lanes: Sequence[tuple[str, TenantId]]) -> Sequence[LaneState]:
        """Returns what holds each lane (definition, tenant) back, in the order given. By one statement."""

    async def activate(self, definition: str, active: bool) -> None:
        """Inactive: nothing new is taken, and what waits is held."""

    async def limit(self, scope: Scope, limits: Limits) -> None: ...

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        """None resumes."""


class Store(Fleet, Administration, Protocol):
    """An open engine."""

    async def close(self) -> None: ...

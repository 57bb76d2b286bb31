"""Workers: registrations, heartbeats, claims, finishes and wakes."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, overload

from leasehold.model.job import Claim, LogLine, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.store.abilities import Abilities
from leasehold.store.tenant_jobs import TenantJobs
from leasehold.store.transactions import AsyncFinishingTransaction, FinishingTransaction


@dataclass(frozen=True, slots=True)
class Subscription:
    """The jobs that a worker can run: of these definitions, for these tenants (None: for all)."""

    definitions: tuple[str, ...]
    tenants: tuple[TenantId, ...] | None = None


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Facts about a worker, for people."""

    host: str
    pid: int
    version: str = ""
    slots: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker's registration. It ends when the worker leaves or is evicted; joining again makes a new one."""

    worker: WorkerId
    serves: Subscription


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A registration. `oldest_started_at` is the start of the job that it holds longest; `listens` tells whether
    notifications wake it. None: this engine can't tell, or there is none. From `drains_since` on, it starts no job.
    """

    id: WorkerId
    facts: WorkerFacts
    serves: Subscription
    running: int
    started_at: datetime
    last_seen_at: datetime
    lease_expires_at: datetime
    oldest_started_at: datetime | None = None
    listens: bool | None = None
    drains_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """Claims, whether there may be more ready jobs, and how long until the next job is due.

    From `prepare_to_sleep`, no claims and more=True means: a producer is in flight, ask again in a moment.
    """

    claims: Sequence[Claim]
    more: bool
    next_due: timedelta | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a heartbeat.

    alive       False: the registration is gone, stop every run
    orphans     claims without a living registration wait for `evict`
    strays      the registration holds claims that were not among those to renew. They began more than a lease ago,
                so their answer can't be under way; `held` names them
    next_due    how long until a job that this registration serves, and may start, is due
    work_waits  such a job is ready now
    next_fire   how long until a schedule fires; less than zero if one is overdue
    next_operation  how long until the next batch of an operation is due; less than zero if one is overdue
    """

    alive: bool
    lost: frozenset[Claim]
    cancels: frozenset[Claim]
    orphans: bool
    strays: bool
    next_due: timedelta | None
    work_waits: bool = False
    next_fire: timedelta | None = None
    next_operation: timedelta | None = None


class Wake(StrEnum):
    """A hint, never data: there may be work, or one of this worker's jobs shall be canceled.

    HEARTBEAT was sent by this registration's own `renew`, if asked for a probe: the listener receives. OPERATION
    is for all workers: an operation was begun.
    """

    WORK = "work"
    CANCEL = "cancel"
    HEARTBEAT = "heartbeat"
    OPERATION = "operation"


@dataclass(frozen=True, slots=True)
class DueWork:
    """A job of a definition comes due after `wait`. The worker that was woken for it looks exactly then."""

    definition: str
    wait: timedelta


@dataclass(frozen=True, slots=True)
class NextFire:
    """A schedule fires after `wait`. With `fired`, all earlier ones have fired; None: no other one is to come.

    None without `fired`: it is not known whether one fires, so the scheduler looks.
    With `event`, an event waits to be expanded, now.
    """

    wait: timedelta | None
    fired: bool = False
    event: bool = False


class Fleet(Protocol):
    """Everything that a worker needs."""

    @property
    def abilities(self) -> Abilities: ...

    def tenant(self, tenant: TenantId) -> TenantJobs: ...

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
        """Extends the lease of the registration and of its claims `held`; ends registrations whose lease ran out.

        `held` has all claims that the caller knows of: the answer names those that are lost, and tells of others.

        `look` also asks whether work waits. `probe` sends Wake.HEARTBEAT to this registration's own `wakes`.
        """

    async def leave(self, registration: Registration, *, has_claimed: bool = True) -> None:
        """Ends the registration. Claims that it still holds are orphans from then on.

        `has_claimed`: False if it never claimed a job, so that no attempt needs its name.
        """

    async def note_drain(self, registration: Registration) -> None:
        """Notes, for people, that this registration claims nothing more and lets its jobs end."""

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        """Claims up to `limit` due jobs: tenants in turn, within a tenant by priority and then age.

        Attempts count here. Jobs that came due are promoted by the same call. An evicted registration gets nothing
        and raises RegistrationLost.
        """

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        """Writes the verdicts, durably. Returns the claims that were fenced off: nothing was written for those.

        A verdict that would queue the job again ends it as canceled if that was requested meanwhile. Final verdicts
        and retries are written one after the other: when the call is repeated after an error, verdicts that were
        written before are refused. Claims `reclaimed` from workers that are gone delay no finish of a worker's own.
        """

    @overload
    def transaction(self, claim: Claim, given: None) -> AsyncFinishingTransaction: ...
    @overload
    def transaction(self, claim: Claim, given: object | None) -> FinishingTransaction:
        """Returns a transaction for this claim's handler, on the connection or session `given`; None: on one of ours.

        Only where `abilities.caller_transaction`. The job's row is not locked until `finish`: a cancel never waits.
        """

    async def evict(self, limit: int) -> Sequence[Claim]:
        """Ends the registrations whose lease has run out, and returns claims that have no living registration.

        They stay as they are until a worker finishes them; of two workers that try, one is fenced off.
        """

    async def held(self, registration: Registration) -> Sequence[Claim]:
        """Returns the claims that the database has for this registration: the truth after an answer was lost."""

    async def prepare_to_sleep(self, registration: Registration, limit: int = 1) -> Claimed:
        """Announces a sleep, and claims once more. No claims and more=False: sleep until `next_due`, or a wake."""

    def wakes(self, registration: Registration) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
        """Yields wakes for this registration, and times at which work comes due or a schedule fires.

        Each (re)connection begins with one WORK, since wakes may have been missed before. Raises CannotListen where
        no wake would ever arrive.
        """

    async def wake_another(self, registration: Registration) -> None:
        """Passes a wake on: wakes sleeping workers that can run ready jobs which this registration serves."""

    async def append_log(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        """Appends log lines and progress. Returns the claims that were fenced off. A repeated line is stored once."""

    async def prune(self, limit: int) -> int:
        """Deletes up to `limit` ended jobs whose retention is over, with attempts and lines; returns how many.

        Also deletes expired dedupe keys, in batches of that size.
        """

    async def workers(self) -> Sequence[WorkerRecord]: ...

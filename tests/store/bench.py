"""The kit of the conformance suite: an engine under test, and a bench with one worker and one tenant.

Tests use the tenant `acme` and two kinds of job, `report` and `email`. Their workers serve that tenant only, because
two bystander tenants live beside every test, whose jobs no test may touch.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from tests.tenant_kit import ACME, DAY, TenantKit

from leasehold.model.backoff import Steps
from leasehold.model.dedupe import Dedupe, Mode, WhileActive
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, JobId, JobRecord, TenantId, WorkerId
from leasehold.model.outcome import Canceled, Outcome, Raised, Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import Filter, Registration, Store, Subscription, TenantJobs, WorkerFacts

REPORT = Definition("report", max_attempts=3, backoff=Steps(10, 20))
EMAIL = Definition("email", max_attempts=3, backoff=Steps(10, 20))

KEY = "the-key"
BROUGHT_ID = JobId("01890a5d-ac96-774b-bcce-b302099a8057")
UNKNOWN_ID = JobId("01890a5d-ac96-774b-bcce-b30209900000")
LEAST_ID = JobId("00000000-0000-0000-0000-000000000000")
GREATEST_ID = JobId("ffffffff-ffff-ffff-ffff-ffffffffffff")

LEASE = timedelta(minutes=1)


@dataclass(frozen=True)
class EngineUnderTest:
    """The engine under test: a store, another store on the same data, and its clock. `store.abilities` says where
    engines differ.
    """

    store: Store
    open_again: Callable[[], Coroutine[Any, Any, Store]]
    """Another store on the same data, as another process would have it; the caller closes it."""
    move_clock: Callable[[timedelta], Coroutine[Any, Any, None]]
    """Moves the engine's clock forward, for all stores on this data."""


class Bench(TenantKit):
    """One tenant's jobs, and workers that serve this tenant."""

    def __init__(self, engine: EngineUnderTest, tenant: TenantId = ACME) -> None:
        super().__init__(engine.store, tenant)
        self.move_clock = engine.move_clock
        self._worker: Registration | None = None

    async def texts(self, claim: Claim) -> list[str]:
        return [line.text for line in await self.lines(claim.job, claim.attempt)]

    # Verbs of workers.

    async def join(
        self,
        *definitions: str,
        tenants: tuple[TenantId, ...] | None = (),
        lease: timedelta = DAY,
        store: Store | None = None,
    ) -> Registration:
        """A new worker for these definitions (both, if none is named) and, unless told otherwise, this tenant."""
        serves = Subscription(definitions or ("report", "email"), (self.tenant,) if tenants == () else tenants)
        return await (store or self.store).join(serves, WorkerFacts(host="bench", pid=1), lease)

    async def worker(self) -> Registration:
        """The bench's own worker, whose lease no test outlives by accident."""
        if self._worker is None:
            self._worker = await self.join(lease=365 * DAY)
        return self._worker

    async def claim(
        self, limit: int = 10, registration: Registration | None = None, store: Store | None = None
    ) -> list[Claim]:
        """Claims like a worker does: again while there may be more and hands are free."""
        registration = registration or await self.worker()
        claims: list[Claim] = []
        for _ in range(20):
            claimed = await (store or self.store).claim(registration, limit - len(claims))
            claims += claimed.claims
            if len(claims) >= limit or not claimed.more:
                break
        return claims

    async def claimed_jobs(self, limit: int = 10, registration: Registration | None = None) -> list[JobId]:
        return [claim.job for claim in await self.claim(limit, registration)]

    async def claim_one(self, registration: Registration | None = None) -> Claim:
        (claim,) = await self.claim(1, registration)
        return claim

    async def running(
        self, definition: str = "report", registration: Registration | None = None, **fields: Any
    ) -> Claim:
        """A new job, and the claim of the worker that runs it."""
        job = await self.enqueue(definition, **fields)
        claim = await self.claim_one(registration)
        assert claim.job == job, "the bench claimed another job: start with an empty queue"
        return claim

    async def finish(self, claim: Claim, outcome: Outcome) -> None:
        refused = await self.finish_all([(claim, outcome)])
        assert not refused, f"{claim} was fenced off"

    async def finish_all(self, done: Sequence[tuple[Claim, Outcome]]) -> frozenset[Claim]:
        """Decides without jitter: jitter takes nothing away."""
        return await self.store.finish([(claim, decide(outcome, claim, jitter=0)) for claim, outcome in done])

    async def succeed(self, claim: Claim, result: str | None = None) -> None:
        await self.finish(claim, Succeeded(result))

    async def fail(self, claim: Claim, message: str = "no jitter", *, final: bool = False) -> None:
        await self.finish(claim, Raised("Unlucky", message, final=final))

    # Jobs that ended, by status.

    async def succeeded(self, **fields: Any) -> JobId:
        claim = await self.running(**fields)
        await self.succeed(claim)
        return claim.job

    async def failed(self, **fields: Any) -> JobId:
        claim = await self.running(**fields)
        await self.fail(claim, final=True)
        return claim.job

    async def canceled(self, **fields: Any) -> JobId:
        claim = await self.running(**fields)
        await self.finish(claim, Canceled())
        return claim.job

    async def dead_lettered(self, **fields: Any) -> JobId:
        claim = await self.running(max_attempts=1, **fields)
        await self.fail(claim)
        return claim.job

    async def ended(self, status: Status, **fields: Any) -> JobId:
        ways: dict[Status, Callable[..., Awaitable[JobId]]] = {
            Status.SUCCEEDED: self.succeeded,
            Status.FAILED: self.failed,
            Status.CANCELED: self.canceled,
            Status.DEAD_LETTER: self.dead_lettered,
        }
        return await ways[status](**fields)


def keyed(mode: Mode | None = None, key: str = KEY) -> Dedupe:
    return Dedupe(key, mode or WhileActive())


def new_id() -> JobId:
    return JobId(str(uuid4()))


def never_joined() -> WorkerId:
    return WorkerId(str(uuid4()))


async def all_jobs(tenant_jobs: TenantJobs, where: Filter | None = None, page: int = 50) -> list[JobRecord]:
    """Every page, one after the other."""
    cursor, records = None, list[JobRecord]()
    while True:
        found = await tenant_jobs.find(where or Filter(), cursor, page)
        records += found.jobs
        cursor = found.next
        if cursor is None:
            return records

"""Claims by remembered lanes and marks, on a real store: what holds for full claims holds for these.

The store gets there as it does in production, by full claims that have become slow. How long a statement takes is
what the test says: the store measures by a clock that each of its statements moves.
"""

from collections.abc import Awaitable, Callable

import pytest
from tests.postgres.race_tools import parts_of, stepped
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.engines.postgres.claim.positions import ClaimPositions
from leasehold.errors import RegistrationLost
from leasehold.model.job import Claim, JobId, NewJob, TenantId
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import Released
from leasehold.store import Registration

FULL, BY_MARKS = "fleet/claim_next_tenants", "fleet/claim_from_lanes"
FULL_AGAIN = 60.0
"""Seconds after which a full claim is due again: it may take a twentieth of the time, and took one second."""


class Steered:
    """A worker for two tenants, whose claims take as long as the test says."""

    def __init__(self, bench: Bench, registration: Registration) -> None:
        self.bench = bench
        self.registration = registration
        self.now = 0.0
        self.full_claims_take = 0.01
        self.statements: list[str] = []
        parts_of(bench.store).monotonic = lambda: self.now
        stepped(bench.store, self._after)

    async def _after(self, statement: str) -> None:
        self.statements.append(statement)
        self.now += self.full_claims_take if statement == FULL else 0.001

    async def claim(self) -> Claim:
        """The next job, by one call."""
        claimed = await self.bench.store.claim(self.registration, 1)
        assert claimed.claims, "nothing was claimed"
        return claimed.claims[0]

    async def a_job_of_each_tenant(self) -> list[JobId]:
        """By one call, too: a share for each of the two."""
        return [claim.job for claim in (await self.bench.store.claim(self.registration, 2)).claims]

    async def claim_in_vain(self, times: int) -> None:
        for _ in range(times):
            assert await self.a_job_of_each_tenant() == []

    async def tenants_of(self, claims: int) -> list[TenantId]:
        return [(await self.claim()).tenant for _ in range(claims)]

    async def go_by_marks(self) -> None:
        """Full claims become slow, a trial by marks is faster, and from then on marks it is."""
        for _ in range(5):
            await self.claim()
        assert BY_MARKS not in self.statements
        self.full_claims_take = 1.0
        for _ in range(10):
            await self.claim()
            if self.statements.count(BY_MARKS) == ClaimPositions.TRIAL:
                return
        pytest.fail("claims are still full ones")


@pytest.fixture
async def steered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Steered:
    """Goes by marks. Many reports of acme and emails of another tenant are left."""
    monkeypatch.setattr(ClaimPositions, "MANY_CLAIMED", 1)
    await bench.enqueue_many(30, "report")
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="email")] * 30)
    worker = Steered(bench, await bench.join(tenants=(ACME, OTHER), lease=LEASE))
    await worker.go_by_marks()
    worker.statements.clear()
    return worker


async def test_marks_are_used_while_full_claims_are_slow(steered: Steered) -> None:
    await steered.tenants_of(8)
    assert steered.statements.count(BY_MARKS) == 8
    assert steered.statements.count(FULL) <= 1


async def test_tenants_take_turns_by_marks(steered: Steered) -> None:
    tenants = await steered.tenants_of(8)
    assert tenants.count(ACME) == tenants.count(OTHER) == 4


async def pause_the_tenant(bench: Bench) -> None:
    await bench.store.pause(Scope(ScopeKind.TENANT, ACME), Pause("for now"))


async def pause_the_definition(bench: Bench) -> None:
    await bench.store.pause(Scope(ScopeKind.DEFINITION, "report"), Pause("for now"))


async def deactivate(bench: Bench) -> None:
    await bench.store.activate("report", False)


async def cap_the_tenant(bench: Bench) -> None:
    await bench.store.limit(Scope(ScopeKind.TENANT, ACME), Limits(max_running=1))


async def cap_the_definition(bench: Bench) -> None:
    await bench.store.limit(Scope(ScopeKind.DEFINITION, "report"), Limits(max_running=1))


async def lift(bench: Bench) -> None:
    for scope in (Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, "report")):
        await bench.store.pause(scope, None)
        await bench.store.limit(scope, Limits())
    await bench.store.activate("report", True)


@pytest.mark.parametrize(
    "hold", [pause_the_tenant, pause_the_definition, deactivate, cap_the_tenant, cap_the_definition]
)
async def test_a_remembered_lane_that_is_held_starts_nothing(
    steered: Steered, hold: Callable[[Bench], Awaitable[None]]
) -> None:
    """More than one report runs already, so that a cap of one is reached."""
    await hold(steered.bench)
    started = [
        claim.tenant for _ in range(10) for claim in (await steered.bench.store.claim(steered.registration, 1)).claims
    ]
    assert BY_MARKS in steered.statements
    assert ACME not in started
    assert len(started) >= 5
    await lift(steered.bench)
    steered.now += FULL_AGAIN
    assert ACME in await steered.tenants_of(3)


async def test_a_more_urgent_job_is_seen_by_marks(steered: Steered) -> None:
    urgent = await steered.bench.enqueue("report", priority=1)
    assert urgent in [(await steered.claim()).job for _ in range(2)]
    assert set(steered.statements) <= {BY_MARKS, FULL}
    assert BY_MARKS in steered.statements


async def give_back(steered: Steered, count: int) -> list[Claim]:
    """Reports that wait again, below the mark: others of their priority that came later have been claimed."""
    claims: list[Claim] = []
    while len(claims) < count:
        claim = await steered.claim()
        if claim.tenant == ACME:
            claims.append(claim)
    while (await steered.claim()).tenant != ACME:
        continue
    for claim in claims:
        await steered.bench.finish(claim, Released())
    return claims


async def test_a_job_below_a_mark_waits_for_the_next_full_claim(steered: Steered) -> None:
    (released,) = await give_back(steered, 1)
    assert released.job not in [(await steered.claim()).job for _ in range(6)]
    steered.now += FULL_AGAIN
    assert released.job in await steered.a_job_of_each_tenant()


async def test_behind_a_job_below_a_mark_the_next_is_found(steered: Steered) -> None:
    """The full claim brings the first of them, and sets the mark back to it."""
    first, second = await give_back(steered, 2)
    steered.now += FULL_AGAIN
    assert first.job in await steered.a_job_of_each_tenant()
    assert BY_MARKS not in steered.statements[-1:]
    assert second.job in await steered.a_job_of_each_tenant()
    assert BY_MARKS in steered.statements[-1:]


async def test_the_last_jobs_of_a_lane_are_found_below_its_mark(steered: Steered) -> None:
    """When nothing is left behind the mark, the lane is read from its beginning at once."""
    (released,) = await give_back(steered, 1)
    claimed = set()
    for _ in range(60):
        claims = (await steered.bench.store.claim(steered.registration, 1)).claims
        claimed |= {claim.job for claim in claims}
        if not claims:
            break
    assert released.job in claimed


async def test_a_worker_that_was_evicted_claims_nothing_by_marks(steered: Steered) -> None:
    """It is told when its memory of two tenants is used up."""
    await steered.bench.move_clock(2 * LEASE)
    with pytest.raises(RegistrationLost):
        await steered.claim_in_vain(times=4)


async def test_full_claims_are_back_when_they_are_fast(steered: Steered) -> None:
    steered.full_claims_take = 0.001
    for _ in range(2):
        steered.now += FULL_AGAIN
        await steered.claim()
    steered.statements.clear()
    await steered.tenants_of(4)
    assert set(steered.statements) == {FULL}

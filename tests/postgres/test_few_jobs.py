"""A worker that has little to do claims by a small statement: what holds for other claims holds for that one."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, parts_of, stepped
from tests.postgres.test_claims_at_once import OpenStores
from tests.postgres.test_sleep import INTERLEAVINGS, Night, Producer, enqueue
from tests.store.bench import Bench
from tests.store.wake_listener import listening
from tests.tenant_kit import ACME, DAY, HOUR, OTHER

from leasehold.engines.postgres.claim.positions import ClaimPositions, FewJobs
from leasehold.errors import RegistrationLost
from leasehold.model.job import JobId, NewJob
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.store import Claimed, Registration

FEW, ALL = "fleet/claim_few", "fleet/claim_next_tenants"
TENANT, DEFINITION = Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, "report")
BOTH_KINDS = pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])


class Idle:
    """A worker for all tenants that found nothing to claim a moment ago; `statements` are those of its claims."""

    def __init__(self, bench: Bench, registration: Registration) -> None:
        self._bench, self.registration = bench, registration
        self.now = 1_000.0
        self.statements: list[str] = []
        parts_of(bench.store).monotonic = lambda: self.now
        stepped(bench.store, self._after)

    async def _after(self, statement: str) -> None:
        self.statements.append(statement)

    async def claim(self, limit: int = 10) -> Claimed:
        self.statements.clear()
        return await self._bench.store.claim(self.registration, limit)

    async def jobs(self, limit: int = 10) -> Sequence[JobId]:
        return [claim.job for claim in (await self.claim(limit)).claims]


@pytest.fixture
async def idle(bench: Bench) -> Idle:
    worker = Idle(bench, await bench.join(tenants=None, lease=365 * DAY))
    assert await worker.jobs() == []
    assert worker.statements == [ALL]
    return worker


async def test_an_idle_worker_claims_by_the_small_statement(bench: Bench, idle: Idle) -> None:
    job = await bench.enqueue()
    claimed = await idle.claim()
    assert ([claim.job for claim in claimed.claims], claimed.more) == ([job], False)
    assert idle.statements == [FEW]
    assert await idle.jobs() == []
    assert idle.statements == [FEW]


async def test_few_jobs_of_several_tenants_come_in_turn(bench: Bench, idle: Idle) -> None:
    mine = await bench.enqueue_many(3)
    urgent = await bench.enqueue("email", priority=1)
    (theirs,) = await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    assert await idle.jobs() == [urgent, theirs.id, *mine]
    assert idle.statements == [FEW]


async def test_many_jobs_are_shared_out_among_tenants(bench: Bench, idle: Idle) -> None:
    await bench.enqueue_many(FewJobs.MOST + 1)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    claims = (await idle.claim(2)).claims
    assert {claim.tenant for claim in claims} == {ACME, OTHER}
    assert idle.statements == [FEW, ALL]


async def test_more_jobs_than_there_is_room_for_take_turns(bench: Bench, idle: Idle) -> None:
    jobs = await bench.enqueue_many(3)
    claimed = await idle.claim(2)
    assert ([claim.job for claim in claimed.claims], claimed.more) == (jobs[:2], True)
    assert idle.statements == [FEW, ALL]


@BOTH_KINDS
async def test_an_idle_worker_leaves_what_is_paused(bench: Bench, idle: Idle, scope: Scope) -> None:
    await bench.store.pause(scope, Pause("for a test"))
    await bench.enqueue()
    assert await idle.jobs() == []


@BOTH_KINDS
async def test_a_pause_of_few_jobs_ends_by_itself(bench: Bench, idle: Idle, scope: Scope) -> None:
    await bench.store.pause(scope, Pause("for a test", datetime.now(UTC) + HOUR))
    job = await bench.enqueue()
    next_due = (await idle.claim()).next_due
    assert next_due is not None
    assert next_due <= HOUR
    await bench.move_clock(2 * HOUR)
    idle.now += HOUR.total_seconds()
    assert await idle.jobs() == [job]


@BOTH_KINDS
async def test_an_idle_worker_keeps_to_caps(bench: Bench, idle: Idle, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=2))
    await bench.enqueue_many(3)
    assert len(await bench.claim(10, idle.registration)) == 2
    assert await bench.claim(10, idle.registration) == []


async def test_an_idle_worker_leaves_inactive_definitions(bench: Bench, idle: Idle) -> None:
    await bench.enqueue()
    await bench.store.activate("report", active=False)
    assert await idle.jobs() == []


async def test_an_idle_worker_claims_what_came_due(bench: Bench, idle: Idle) -> None:
    later = await bench.enqueue(delay=HOUR, priority=1)
    assert await idle.jobs() == []
    await bench.move_clock(2 * HOUR)
    now = await bench.enqueue()
    assert await idle.jobs() == [later, now]


async def test_a_job_that_another_claim_holds_is_asked_for_again(
    bench: Bench, idle: Idle, connections: Connections
) -> None:
    held, free = await bench.enqueue_many(2)
    other = await connections.open()
    async with other.transaction():
        await other.execute("select from leasehold.jobs where id = $1 for update", held)
        claimed = await idle.claim()
        assert ([claim.job for claim in claimed.claims], claimed.more) == ([free], True)
    assert await idle.jobs() == [held]


async def test_a_wrong_guess_is_not_repeated_for_a_second(bench: Bench, idle: Idle) -> None:
    await bench.store.pause(TENANT, Pause("for a test"))
    await bench.enqueue()
    ways = []
    for _ in range(3):
        await idle.claim()
        ways.append(idle.statements.copy())
    idle.now += FewJobs.PAUSE
    await idle.claim()
    assert [*ways, idle.statements] == [[FEW, ALL], [ALL], [ALL], [FEW, ALL]]
    idle.now += FewJobs.PAUSE
    await idle.claim()
    assert idle.statements == [ALL], "the second wrong guess counts for twice as long"


async def test_while_full_claims_are_slow_there_is_no_guess(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimPositions, "full_claim_is_due", lambda *_: False)
    await idle.claim()
    assert FEW not in idle.statements


async def test_workers_that_race_for_few_jobs_get_each_once(bench: Bench, open_stores: OpenStores) -> None:
    idle = [(store, await bench.join(tenants=None, store=store)) for store in await open_stores(4)]
    for store, registration in idle:
        await bench.claim(1, registration, store)
    jobs = await bench.enqueue_many(FewJobs.MOST)
    rounds = await asyncio.gather(*(bench.claim(FewJobs.MOST, registration, store) for store, registration in idle))
    assert sorted(claim.job for claims in rounds for claim in claims) == sorted(jobs)


async def test_an_overdue_job_of_a_paused_definition_is_left(bench: Bench, idle: Idle) -> None:
    await bench.enqueue("email", delay=HOUR)
    await bench.store.pause(Scope(ScopeKind.DEFINITION, "email"), Pause("for a test"))
    await bench.move_clock(2 * HOUR)
    job = await bench.enqueue()
    assert await idle.jobs() == [job]


async def test_an_idle_worker_that_was_evicted_claims_nothing(bench: Bench) -> None:
    idle = Idle(bench, await bench.join(tenants=None, lease=HOUR))
    assert await idle.jobs() == []
    job = await bench.enqueue()
    await bench.move_clock(2 * HOUR)
    with pytest.raises(RegistrationLost):
        await idle.jobs()
    assert (await bench.job(job)).attempt == 0


async def test_a_worker_for_named_tenants_reads_their_lanes(bench: Bench) -> None:
    """All that is ready of a definition may be the backlog of others."""
    idle = Idle(bench, await bench.worker())
    for _ in range(2):
        assert await idle.jobs() == []
        assert idle.statements == [ALL]


async def test_no_job_is_slept_through_by_a_worker_that_was_idle(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    await bench.enqueue(delay=DAY)
    registration = await bench.join(tenants=None, lease=365 * DAY)
    connection = await connections.open()
    async with listening(bench.store, registration) as listener:
        night = Night(bench, registration, listener, observer)
        for steps in INTERLEAVINGS:
            assert not await night.sleeps_through([Producer(enqueue(bench), connection, *steps)]), steps
            assert await bench.claim(10, registration) == []

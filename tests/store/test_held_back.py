"""Held jobs: caps, pauses and inactive definitions."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.store.bench import LEASE, Bench, EngineUnderTest
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.errors import RegistrationLost, UnknownDefinition
from leasehold.model.job import Claim
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import Raised, Released, Succeeded
from leasehold.model.status import Status
from leasehold.store import Store

TENANT = Scope(ScopeKind.TENANT, ACME)
DEFINITION = Scope(ScopeKind.DEFINITION, "email")
"""The bystander runs a `report`, which would count; of `email` it runs none."""
BOTH_KINDS = pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])


@BOTH_KINDS
async def test_no_more_run_than_the_cap_allows(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=3))
    await bench.enqueue_many(10, "email")
    assert len(await bench.claim(10)) == 3
    assert await bench.claim(10) == []


@BOTH_KINDS
@pytest.mark.abilities("exact_caps")
async def test_workers_that_claim_at_once_keep_the_cap(bench: Bench, stores: list[Store], scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=3))
    await bench.enqueue_many(50, "email")
    registrations = [(store, await bench.join("email", store=store)) for store in stores]
    for _ in range(10):
        rounds = await asyncio.gather(*(bench.claim(5, registration, store) for store, registration in registrations))
        claims = [claim for claims in rounds for claim in claims] + await bench.claim(10)
        assert len(claims) == 3
        await bench.finish_all([(claim, Succeeded()) for claim in claims])


@BOTH_KINDS
@pytest.mark.abilities("exact_caps")
async def test_a_capped_job_that_is_claimed_again_has_a_new_fence(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    first = await bench.running("email")
    await bench.finish(first, Released())
    second = await bench.claim_one()
    assert (second.job, second.attempt, second.worker) == (first.job, 2, first.worker)
    assert second.batch > first.batch


@BOTH_KINDS
@pytest.mark.abilities("exact_caps")
async def test_a_job_that_runs_again_counts_for_its_cap(bench: Bench, scope: Scope) -> None:
    """With room for one more: a claim that finds a lane and one that counts its room must both count the job."""
    await bench.store.limit(scope, Limits(max_running=2))
    await bench.finish(await bench.running("email"), Released())
    await bench.claim_one()
    await bench.enqueue_many(5, "email")
    assert len(await bench.claim(10)) == 1
    assert await bench.claim(10) == []


@BOTH_KINDS
async def test_a_job_that_ends_makes_room_for_the_next(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=2))
    await bench.enqueue_many(5, "email")
    first, _ = await bench.claim(10)
    await bench.succeed(first)
    assert len(await bench.claim(10)) == 1


@BOTH_KINDS
async def test_a_job_that_waits_again_makes_room_for_the_next(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    jobs = await bench.enqueue_many(2, "email")
    await bench.finish(await bench.claim_one(), Raised("Unlucky", "no jitter"))
    assert await bench.claimed_jobs() == [jobs[1]]


@BOTH_KINDS
@pytest.mark.abilities("exact_caps")
async def test_a_dead_workers_job_counts_until_it_is_finished(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.enqueue_many(2, "email")
    await bench.claim_one(await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    assert await bench.claim() == []
    await bench.succeed(orphan)
    assert len(await bench.claim()) == 1


@BOTH_KINDS
@pytest.mark.abilities("exact_caps")
async def test_a_cap_that_is_raised_lets_more_run(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.enqueue_many(5, "email")
    await bench.claim_one()
    await bench.store.limit(scope, Limits(max_running=3))
    assert len(await bench.claim(10)) == 2


@BOTH_KINDS
async def test_a_lost_worker_takes_no_room_of_a_cap(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    lost = await bench.join("email", lease=LEASE)
    chosen, other = await bench.enqueue_many(2, "email")
    await bench.move_clock(2 * LEASE)
    with pytest.raises(RegistrationLost):
        await bench.store.claim(lost, 1)
    await bench.jobs.cancel([chosen])
    assert await bench.claimed_jobs() == [other]


@BOTH_KINDS
async def test_a_cap_that_is_lifted_lets_all_run(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.enqueue_many(5, "email")
    await bench.store.limit(scope, Limits())
    assert len(await bench.claim(10)) == 5


@pytest.mark.abilities("exact_caps")
async def test_a_tenants_cap_holds_back_no_other_tenant(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    await engine.store.limit(TENANT, Limits(max_running=1))
    await acme.enqueue_many(5)
    await other.enqueue_many(5)
    claims = await acme.claim(10, await acme.join(tenants=(ACME, OTHER)))
    assert _tenants(claims) == [ACME] + [OTHER] * 5


@pytest.mark.abilities("exact_caps")
async def test_a_definitions_cap_holds_back_no_other_definition(bench: Bench) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=1))
    emails = await bench.enqueue_many(5, "email")
    reports = await bench.enqueue_many(5, "report")
    assert sorted(await bench.claimed_jobs(10)) == sorted([emails[0], *reports])


@pytest.mark.abilities("exact_caps")
async def test_a_definitions_cap_counts_all_tenants(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    await engine.store.limit(DEFINITION, Limits(max_running=1))
    await acme.running("email")
    await other.enqueue("email")
    assert await other.claim() == []


@pytest.mark.abilities("exact_caps")
async def test_a_definitions_cap_counts_all_tenants_of_one_claim(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    await engine.store.limit(DEFINITION, Limits(max_running=3))
    await acme.enqueue_many(5, "email")
    await other.enqueue_many(5, "email")
    assert len(await acme.claim(10, await acme.join(tenants=(ACME, OTHER)))) == 3


@pytest.mark.abilities("exact_caps")
async def test_the_narrower_of_two_caps_holds(bench: Bench) -> None:
    await bench.store.limit(TENANT, Limits(max_running=4))
    await bench.store.limit(DEFINITION, Limits(max_running=2))
    await bench.enqueue_many(5, "email")
    await bench.enqueue_many(5, "report")
    claims = await bench.claim(10)
    assert sorted(claim.definition.key for claim in claims) == ["email", "email", "report", "report"]


@BOTH_KINDS
async def test_a_paused_scope_is_not_claimed_until_it_is_resumed(bench: Bench, scope: Scope) -> None:
    job = await bench.enqueue("email")
    await bench.store.pause(scope, Pause("maintenance"))
    assert await bench.claim() == []
    await bench.store.pause(scope, None)
    assert await bench.claimed_jobs() == [job]


@BOTH_KINDS
async def test_a_paused_scope_takes_new_jobs(bench: Bench, scope: Scope) -> None:
    await bench.store.pause(scope, Pause("maintenance"))
    assert await bench.status(await bench.enqueue("email")) is Status.QUEUED


@BOTH_KINDS
async def test_a_running_job_goes_on_when_its_scope_is_paused(bench: Bench, scope: Scope) -> None:
    claim = await bench.running("email")
    await bench.store.pause(scope, Pause("maintenance"))
    await bench.succeed(claim)
    assert await bench.status(claim.job) is Status.SUCCEEDED


@BOTH_KINDS
async def test_a_pause_ends_by_itself_when_its_time_has_come(bench: Bench, scope: Scope) -> None:
    job = await bench.enqueue("email")
    await bench.store.pause(scope, Pause("maintenance", until=datetime.now(UTC) + HOUR))
    assert await bench.claim() == []
    await bench.move_clock(HOUR + timedelta(minutes=1))
    assert await bench.claimed_jobs() == [job]


@BOTH_KINDS
async def test_a_job_that_comes_due_in_a_pause_is_held(bench: Bench, scope: Scope) -> None:
    job = await bench.enqueue("email", delay=HOUR)
    await bench.store.pause(scope, Pause("maintenance"))
    await bench.move_clock(HOUR)
    assert await bench.claim() == []
    await bench.store.pause(scope, None)
    assert await bench.claimed_jobs() == [job]


async def test_a_paused_tenant_holds_back_no_other_tenant(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    await engine.store.pause(TENANT, Pause("maintenance"))
    await acme.enqueue()
    await other.enqueue()
    assert _tenants(await acme.claim(10, await acme.join(tenants=(ACME, OTHER)))) == [OTHER]


async def test_a_paused_definition_holds_back_no_other_definition(bench: Bench) -> None:
    await bench.store.pause(DEFINITION, Pause("maintenance"))
    await bench.enqueue("email")
    report = await bench.enqueue("report")
    assert await bench.claimed_jobs() == [report]


async def test_a_tenant_can_be_paused_before_its_first_job(engine: EngineUnderTest) -> None:
    other = Bench(engine, OTHER)
    await engine.store.pause(Scope(ScopeKind.TENANT, OTHER), Pause("not yet"))
    await other.enqueue()
    assert await other.claim() == []


async def test_a_job_of_an_inactive_definition_is_held(bench: Bench) -> None:
    job = await bench.enqueue("email")
    await bench.store.activate("email", False)
    assert await bench.claim() == []
    await bench.store.activate("email", True)
    assert await bench.claimed_jobs() == [job]


async def test_a_running_job_goes_on_when_its_definition_is_inactive(bench: Bench) -> None:
    claim = await bench.running("email")
    await bench.store.activate("email", False)
    await bench.succeed(claim)
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def _pause_tenant(bench: Bench) -> None:
    await bench.store.pause(TENANT, Pause("maintenance"))


async def _pause_definition(bench: Bench) -> None:
    await bench.store.pause(DEFINITION, Pause("maintenance"))


async def _deactivate(bench: Bench) -> None:
    await bench.store.activate("email", False)


async def _limit(bench: Bench) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=1))


@pytest.mark.parametrize("hold_back", [_pause_tenant, _pause_definition, _deactivate, _limit])
async def test_a_worker_in_the_midst_of_a_backlog_stops_at_once(
    bench: Bench, hold_back: Callable[[Bench], Awaitable[None]]
) -> None:
    await bench.enqueue_many(10, "email")
    await bench.claim_one()
    await hold_back(bench)
    assert await bench.claim() == []


def _tenants(claims: list[Claim]) -> list[str]:
    return sorted(claim.tenant for claim in claims)


async def test_a_misspelled_definition_can_not_be_limited_or_paused(bench: Bench) -> None:
    scope = Scope(ScopeKind.DEFINITION, "emial")
    with pytest.raises(UnknownDefinition, match="Nothing was changed"):
        await bench.store.pause(scope, Pause("incident"))
    with pytest.raises(UnknownDefinition, match="Nothing was changed"):
        await bench.store.limit(scope, Limits(max_running=1))

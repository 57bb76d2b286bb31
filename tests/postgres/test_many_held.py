"""Very many lanes: each has its turn, and a claim among those that may not start anything ends."""

import asyncio
from collections import Counter

import pytest
from tests.postgres.race_tools import SOON
from tests.store.bench import Bench
from tests.store.wake_listener import fall_asleep
from tests.tenant_kit import DAY

from leasehold.engines.postgres.claim.rotation import PIECE
from leasehold.model.job import NewJob, TenantId, tenant_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind

MANY = [tenant_id(f"tenant-{number:03}") for number in range(PIECE + 6)]


async def test_a_claim_for_very_many_tenants_without_work_comes_back_empty(bench: Bench) -> None:
    registration = await bench.join(tenants=tuple(MANY))
    async with asyncio.timeout(SOON.total_seconds()):
        claimed = await bench.store.claim(registration, 1)
    assert list(claimed.claims) == []


async def test_a_worker_of_many_idle_tenants_can_fall_asleep(bench: Bench) -> None:
    registration = await bench.join(tenants=tuple(MANY))
    async with asyncio.timeout(SOON.total_seconds()):
        await fall_asleep(bench.store, registration)


async def hold(bench: Bench, tenants: list[TenantId]) -> None:
    """Work for each of them, none of which may start."""
    for tenant in tenants:
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")])
        await bench.store.pause(Scope(ScopeKind.TENANT, tenant), Pause("unpaid"))


async def test_a_worker_of_many_paused_tenants_can_fall_asleep(bench: Bench) -> None:
    await hold(bench, MANY)
    registration = await bench.join(tenants=None)
    async with asyncio.timeout(SOON.total_seconds()):
        await fall_asleep(bench.store, registration)


async def test_a_job_behind_very_many_paused_tenants_is_found(bench: Bench) -> None:
    await hold(bench, MANY)
    (placed,) = await bench.store.tenant(tenant_id("zz")).enqueue([NewJob(definition="report")])
    registration = await bench.join(tenants=None)
    async with asyncio.timeout(SOON.total_seconds()):
        assert await bench.claimed_jobs(1, registration) == [placed.id]


async def test_a_claim_among_very_many_tenants_at_their_cap_comes_back(bench: Bench) -> None:
    for tenant in MANY:
        await bench.store.limit(Scope(ScopeKind.TENANT, tenant), Limits(max_running=1))
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")] * 2)
    registration = await bench.join(tenants=None, lease=DAY)
    async with asyncio.timeout(2 * SOON.total_seconds()):
        assert len(await bench.claim(len(MANY), registration)) == len(MANY)
        assert list((await bench.store.claim(registration, 1)).claims) == []


@pytest.mark.parametrize("count", [PIECE - 1, PIECE, PIECE + 1])
async def test_every_tenant_is_served_at_the_edge_of_a_piece(bench: Bench, count: int) -> None:
    jobs = [(await bench.store.tenant(t).enqueue([NewJob(definition="report")]))[0].id for t in MANY[:count]]
    registration = await bench.join(tenants=None)
    async with asyncio.timeout(SOON.total_seconds()):
        assert set(await bench.claimed_jobs(count, registration)) == set(jobs)
        await fall_asleep(bench.store, registration)


async def test_many_tenants_get_equal_shares(bench: Bench) -> None:
    for tenant in MANY:
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")] * 10)
    registration = await bench.join("report", tenants=None)
    given = Counter([claim.tenant for _ in range(9) for claim in await bench.claim(PIECE, registration)])
    assert {given[tenant] for tenant in MANY} <= {8, 9}


async def test_many_tenants_each_have_one_turn_before_any_has_two(
    bench: Bench,
) -> None:
    """However long the first look took: it had nothing in the cache, and the next is not to wait for that."""
    big = tenant_id("big")
    await bench.store.tenant(big).enqueue([NewJob(definition="report")] * 500)
    for tenant in MANY:
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")])
    registration = await bench.join("report", tenants=None)
    claims = [claim.tenant for _ in range(2) for claim in await bench.claim(PIECE, registration)]
    assert set(claims) == {big, *MANY}
    last = max(claims.index(tenant) for tenant in MANY)
    assert claims[:last].count(big) <= 2

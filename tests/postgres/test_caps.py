"""Caps are exact, however many claim at once; and a scope that is busy is not taken for an empty one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Gate, at_once, running, task
from tests.store.bench import Bench
from tests.store.wake_listener import asleep
from tests.tenant_kit import ACME, OTHER

from leasehold.model.job import NewJob
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.model.outcome import Released, Succeeded, decide
from leasehold.store import Registration, Store, Wake

OpenStores = Callable[[int], Awaitable[list[Store]]]

CAP = 3
CLAIMERS = 12
JOBS = 60
TENANT = Scope(ScopeKind.TENANT, ACME)
DEFINITION = Scope(ScopeKind.DEFINITION, "email")
CAPPED = pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])

# Each claimer locks another row: no claimer is kept out.
NO_TWO_LOCKS_MEET = """
    create or replace function leasehold.limit_key(kind text, key text) returns bigint language sql volatile
    as $$ select pg_backend_pid()::bigint << 32 | abs(hashtext(kind || key)::bigint) $$
"""

# How many ran at once at the worst moment, from when each attempt began and ended.
MOST_AT_ONCE = """
    select max(running) from (
        select sum(step) over (order by moment, step desc) as running from (
            select started_at as moment, 1 as step from leasehold.jobs_done
            union all
            select finished_at, -1 from leasehold.jobs_done
        ) changes
    ) history
"""


@pytest.fixture
async def crowd(bench: Bench, open_stores: OpenStores) -> list[tuple[Store, Registration]]:
    """Twelve processes that serve both definitions for both tenants."""
    return [(store, await bench.join(tenants=(ACME, OTHER), store=store)) for store in await open_stores(CLAIMERS)]


async def enqueue_within(scope: Scope, bench: Bench, count: int) -> None:
    """Jobs that all count for the scope, in as many lanes as it has."""
    if scope is TENANT:
        await bench.jobs.enqueue([NewJob(definition=("report", "email")[n % 2]) for n in range(count)])
    else:
        for tenant in (ACME, OTHER):
            await bench.store.tenant(tenant).enqueue([NewJob(definition="email") for _ in range(count // 2)])


@asynccontextmanager
async def watched(observer: Raw) -> AsyncIterator[list[int]]:
    """How many ran, counted again and again from outside."""
    seen = [0]

    async def watch() -> None:
        while True:
            seen.append(await running(observer))

    async with task(watch()):
        yield seen


@CAPPED
async def test_twelve_claims_at_once_start_no_more_than_a_cap_of_three(
    scope: Scope, bench: Bench, crowd: list[tuple[Store, Registration]], observer: Raw
) -> None:
    await bench.store.limit(scope, Limits(max_running=CAP))
    await enqueue_within(scope, bench, JOBS)
    done = 0
    while done < JOBS:
        answers = await at_once(*(partial(store.claim, registration, 2) for store, registration in crowd))
        claims = [claim for answer in answers for claim in answer.claims]
        assert await running(observer) == len(claims) <= CAP
        assert await bench.finish_all([(claim, Succeeded()) for claim in claims]) == frozenset()
        done += len(claims)
    assert await observer.fetchval(MOST_AT_ONCE) == CAP


@CAPPED
async def test_twelve_workers_never_exceed_a_cap_of_three(
    scope: Scope, bench: Bench, crowd: list[tuple[Store, Registration]], observer: Raw
) -> None:
    await bench.store.limit(scope, Limits(max_running=CAP))
    await enqueue_within(scope, bench, JOBS)
    done = 0

    async def work(store: Store, registration: Registration) -> None:
        nonlocal done
        while done < JOBS:
            for claim in (await store.claim(registration, 2)).claims:
                assert not await store.finish([(claim, decide(Succeeded(), claim, jitter=0))])
                done += 1

    async with watched(observer) as seen:
        await asyncio.gather(*(work(store, registration) for store, registration in crowd))
    assert max(seen) <= CAP
    assert await observer.fetchval(MOST_AT_ONCE) == CAP


async def claims_by_snapshots_of_one_moment(bench: Bench, crowd: list[tuple[Store, Registration]], gate: Gate) -> int:
    """All twelve have looked before any of them has claimed. How many jobs they claim in all."""
    await gate.close("fleet/claim_from_lanes")
    async with AsyncExitStack() as stack:
        claims = [
            await stack.enter_async_context(task(store.claim(registration, CAP))) for store, registration in crowd
        ]
        await gate.holds(CLAIMERS)
        await gate.open()
        return sum([len((await claim).claims) for claim in claims])


@CAPPED
async def test_twelve_claims_with_snapshots_of_one_moment_keep_the_cap(
    scope: Scope, bench: Bench, crowd: list[tuple[Store, Registration]], gate: Gate
) -> None:
    await bench.store.limit(scope, Limits(max_running=CAP))
    await enqueue_within(scope, bench, JOBS)
    assert await claims_by_snapshots_of_one_moment(bench, crowd, gate) == CAP


@CAPPED
async def test_without_the_lock_the_same_twelve_claims_exceed_the_cap(
    scope: Scope, bench: Bench, crowd: list[tuple[Store, Registration]], gate: Gate, observer: Raw
) -> None:
    """The control: the test above can fail."""
    await bench.store.limit(scope, Limits(max_running=CAP))
    await enqueue_within(scope, bench, JOBS)
    await observer.execute(NO_TWO_LOCKS_MEET)
    assert await claims_by_snapshots_of_one_moment(bench, crowd, gate) > CAP


# A scope that is busy


@asynccontextmanager
async def claimed_by_another(scope: Scope, connection: Raw) -> AsyncIterator[None]:
    """Another claim on the scope is under way: it holds the lock."""
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(leasehold.limit_key($1, $2))", scope.kind.value, scope.key
        )
        yield


@CAPPED
async def test_a_scope_that_another_claims_from_is_busy_not_empty(scope: Scope, bench: Bench, observer: Raw) -> None:
    await bench.store.limit(scope, Limits(max_running=CAP))
    job, registration = await bench.enqueue("email"), await bench.worker()
    async with claimed_by_another(scope, observer):
        claimed, settled = await bench.store.claim(registration, 1), await bench.store.prepare_to_sleep(registration)
    assert (list(claimed.claims), claimed.more) == ([], True)
    assert (list(settled.claims), settled.more) == ([], True)
    assert await bench.claimed_jobs() == [job]


async def test_a_scope_that_another_worker_claims_from_is_busy(bench: Bench, observer: Raw) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=CAP))
    report, email = await bench.enqueue("report"), await bench.enqueue("email")
    async with claimed_by_another(DEFINITION, observer):
        claimed = await bench.store.claim(await bench.worker(), 10)
    assert [claim.job for claim in claimed.claims] == [report]
    assert claimed.more, f"{email} waits, and would have been claimed a moment later"


async def test_a_claim_locks_only_the_scopes_that_it_claims_from(
    bench: Bench, observer: Raw, second_store: Store, gate: Gate
) -> None:
    """Or one tenant's claim would keep another's waiting."""
    for tenant in (ACME, OTHER):
        await bench.store.limit(Scope(ScopeKind.TENANT, tenant), Limits(max_running=CAP))
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")])
    mine, theirs = await bench.join(), await bench.join(tenants=(OTHER,), store=second_store)
    await gate.close("fleet/claim_from_lanes")
    async with task(bench.store.claim(mine, 1)) as first:
        await gate.holds(1)
        async with task(second_store.claim(theirs, 1)) as second:
            await gate.holds(2)
            await gate.open()
            assert len((await first).claims) == 1
            assert len((await second).claims) == 1


@CAPPED
async def test_a_finish_in_a_capped_scope_wakes_another_process(
    scope: Scope, bench: Bench, second_store: Store
) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    claim, waiting = await bench.running("email"), await bench.enqueue("email")
    registration = await bench.join(store=second_store)
    async with asleep(second_store, registration) as listener:
        await bench.succeed(claim)
        assert await listener.next() is Wake.WORK
        assert [claim.job for claim in (await second_store.claim(registration, 1)).claims] == [waiting]


@CAPPED
async def test_a_job_given_back_in_a_capped_scope_wakes_a_sleeper(
    scope: Scope, bench: Bench, second_store: Store
) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    claim = await bench.running("email")
    await bench.enqueue("email")
    async with asleep(second_store, await bench.join(store=second_store)) as listener:
        await bench.finish(claim, Released())
        assert await listener.next() is Wake.WORK

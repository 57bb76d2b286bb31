"""The sleep protocol: a sleeping worker is woken for every job that it could run, however the job became ready."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest
from tests.conftest import PATIENCE
from tests.store.bench import LEASE, Bench, EngineUnderTest, keyed
from tests.store.bystander import BYSTANDERS
from tests.store.wake_listener import asleep, fall_asleep, listening
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.dedupe import Within
from leasehold.model.job import Claim, NewJob
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import LeaseLost, Raised, Released, Snoozed
from leasehold.model.status import Status
from leasehold.store import Store, Wake

pytestmark = pytest.mark.abilities("wakes")

TENANT = Scope(ScopeKind.TENANT, ACME)
EMAILS = Scope(ScopeKind.DEFINITION, "email")


# Settle


async def test_a_worker_may_sleep_on_an_empty_queue(bench: Bench) -> None:
    registration = await bench.worker()
    async with listening(bench.store, registration):
        settled = await bench.store.prepare_to_sleep(registration)
    assert (list(settled.claims), settled.more) == ([], False)


async def test_a_worker_does_not_sleep_while_work_waits(bench: Bench) -> None:
    registration = await bench.worker()
    job = await bench.enqueue()
    async with listening(bench.store, registration):
        settled = await bench.store.prepare_to_sleep(registration)
        assert settled.claims or settled.more
        assert [claim.job for claim in [*settled.claims, *await bench.claim()]] == [job]


async def test_prepare_to_sleep_tells_when_the_next_job_is_due(bench: Bench) -> None:
    registration = await bench.worker()
    await bench.enqueue(delay=HOUR)
    async with listening(bench.store, registration):
        next_due = await fall_asleep(bench.store, registration)
    assert next_due is not None
    assert timedelta(minutes=59) < next_due <= HOUR


@pytest.mark.parametrize("scope", [TENANT, EMAILS], ids=["tenant", "definition"])
async def test_prepare_to_sleep_tells_when_a_pause_is_over(bench: Bench, scope: Scope) -> None:
    registration = await bench.worker()
    await bench.enqueue("email")
    await bench.store.pause(scope, Pause("maintenance", until=datetime.now(UTC) + HOUR))
    async with listening(bench.store, registration):
        next_due = await fall_asleep(bench.store, registration)
    assert next_due is not None
    assert next_due <= HOUR


async def test_a_job_that_came_due_keeps_a_worker_awake(bench: Bench) -> None:
    registration = await bench.worker()
    job = await bench.enqueue(delay=HOUR)
    async with listening(bench.store, registration):
        await fall_asleep(bench.store, registration)
        await bench.move_clock(HOUR)
        settled = await bench.store.prepare_to_sleep(registration)
        assert settled.claims or settled.more
        assert [claim.job for claim in [*settled.claims, *await bench.claim()]] == [job]


# A wake for a new job


async def test_a_new_job_wakes_who_sleeps(bench: Bench) -> None:
    async with asleep(bench.store, await bench.worker()) as listener:
        job = await bench.enqueue()
        assert await listener.next() is Wake.WORK
        assert await bench.claimed_jobs() == [job]


async def test_a_job_of_another_process_wakes_who_sleeps(bench: Bench, second_store: Store) -> None:
    async with asleep(bench.store, await bench.worker()) as listener:
        await second_store.tenant(ACME).enqueue([NewJob(definition="report")])
        assert await listener.next() is Wake.WORK


async def test_a_worker_that_sleeps_again_is_woken_again(bench: Bench) -> None:
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        for _ in range(3):
            await bench.enqueue()
            assert await listener.next() is Wake.WORK
            await bench.succeed(await bench.claim_one())
            await fall_asleep(bench.store, registration)


async def test_a_batch_wakes_who_sleeps(bench: Bench) -> None:
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.enqueue_many(100)
        assert await listener.next() is Wake.WORK


async def test_each_of_four_jobs_wakes_another_of_four_sleepers(bench: Bench) -> None:
    async with AsyncExitStack() as stack:
        listener = [await stack.enter_async_context(asleep(bench.store, await bench.join())) for _ in range(4)]
        for _ in listener:
            await bench.enqueue()
        assert await asyncio.gather(*(each.next() for each in listener)) == [Wake.WORK] * 4


async def test_a_wake_goes_to_a_worker_that_serves_the_definition(bench: Bench) -> None:
    reports, emails = await bench.join("report"), await bench.join("email")
    async with asleep(bench.store, emails), asleep(bench.store, reports) as listener:
        await bench.enqueue("report")
        assert await listener.next() is Wake.WORK


async def test_a_wake_goes_to_a_worker_that_serves_the_tenant(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    async with asleep(acme.store, await other.worker()), asleep(acme.store, await acme.worker()) as listener:
        await acme.enqueue()
        assert await listener.next() is Wake.WORK


async def test_a_worker_for_all_tenants_is_woken_for_a_new_one(engine: EngineUnderTest) -> None:
    """The pauses hold the bystanders' jobs: otherwise a worker for all tenants could not fall asleep."""
    for tenant in BYSTANDERS:
        await engine.store.pause(Scope(ScopeKind.TENANT, tenant), Pause("only watching"))
    newcomer = Bench(engine, OTHER)
    async with asleep(engine.store, await newcomer.join(tenants=None)) as listener:
        await newcomer.enqueue()
        assert await listener.next() is Wake.WORK


async def test_a_job_that_it_can_not_run_does_not_wake_a_worker(bench: Bench) -> None:
    """The cancel comes after it on the same way: a wake for the report would have been heard before."""
    emails = await bench.join("email")
    running = await bench.running("email", registration=emails)
    async with asleep(bench.store, emails) as listener:
        await bench.enqueue("report")
        await bench.jobs.cancel([running.job])
        assert await listener.next() is Wake.CANCEL


async def test_a_duplicate_does_not_wake_a_worker(bench: Bench) -> None:
    held = await bench.running(dedupe=keyed(Within(HOUR)))
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.jobs.enqueue([NewJob(definition="report", dedupe=keyed(Within(HOUR)))])
        await bench.jobs.cancel([held.job])
        assert await listener.next() is Wake.CANCEL


# A wake for a time


async def test_a_future_job_wakes_a_sleeper_without_a_timer(bench: Bench) -> None:
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        await bench.enqueue(delay=HOUR)
        assert await listener.next() is Wake.WORK
        assert await fall_asleep(bench.store, registration) is not None


async def test_an_earlier_future_job_wakes_who_waits_for_a_later_one(bench: Bench) -> None:
    registration = await bench.worker()
    await bench.enqueue(delay=2 * HOUR)
    async with asleep(bench.store, registration) as listener:
        await bench.enqueue(delay=HOUR)
        assert await listener.next() is Wake.WORK
        next_due = await fall_asleep(bench.store, registration)
    assert next_due is not None
    assert next_due <= HOUR


async def test_a_sleeper_with_an_earlier_timer_sleeps_on(bench: Bench) -> None:
    running = await bench.running()
    await bench.enqueue(delay=HOUR)
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.enqueue(delay=2 * HOUR)
        await bench.jobs.cancel([running.job])
        assert await listener.next() is Wake.CANCEL


# A wake for whatever else makes work


Source = Callable[[Bench, Claim], Awaitable[object]]


async def _retry(bench: Bench, claim: Claim) -> None:
    await bench.finish(claim, Raised("Unlucky", "no jitter"))


async def _snooze(bench: Bench, claim: Claim) -> None:
    await bench.finish(claim, Snoozed(HOUR))


async def _release(bench: Bench, claim: Claim) -> None:
    await bench.finish(claim, Released())


async def _crash(bench: Bench, claim: Claim) -> None:
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, LeaseLost())


@pytest.mark.parametrize("source", [_retry, _snooze, _release, _crash])
async def test_a_job_that_waits_again_wakes_another_worker(bench: Bench, source: Source) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    async with asleep(bench.store, await bench.worker()) as listener:
        await source(bench, claim)
        assert await listener.next() is Wake.WORK


async def test_a_manual_retry_wakes_who_sleeps(bench: Bench) -> None:
    job = await bench.succeeded()
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.jobs.retry({job: 1})
        assert await listener.next() is Wake.WORK


@pytest.mark.parametrize("delay", [timedelta(), HOUR / 2], ids=["now", "earlier"])
async def test_a_job_that_is_moved_forward_wakes_who_sleeps(bench: Bench, delay: timedelta) -> None:
    job = await bench.enqueue(delay=HOUR)
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.jobs.reschedule([job], delay)
        assert await listener.next() is Wake.WORK


@pytest.mark.parametrize("scope", [TENANT, EMAILS], ids=["tenant", "definition"])
async def test_the_end_of_a_pause_wakes_who_sleeps(bench: Bench, scope: Scope) -> None:
    await bench.store.pause(scope, Pause("maintenance"))
    await bench.enqueue("email")
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.store.pause(scope, None)
        assert await listener.next() is Wake.WORK


async def test_a_definition_that_becomes_active_wakes_who_sleeps(bench: Bench) -> None:
    await bench.enqueue("email")
    await bench.store.activate("email", False)
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.store.activate("email", True)
        assert await listener.next() is Wake.WORK


@pytest.mark.parametrize("scope", [TENANT, EMAILS], ids=["tenant", "definition"])
async def test_a_raised_limit_wakes_who_sleeps(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.running("email")
    await bench.enqueue("email")
    async with asleep(bench.store, await bench.worker()) as listener:
        await bench.store.limit(scope, Limits(max_running=2))
        assert await listener.next() is Wake.WORK


@pytest.mark.parametrize("scope", [TENANT, EMAILS], ids=["tenant", "definition"])
async def test_a_finish_that_frees_a_capped_scope_wakes_who_sleeps(bench: Bench, scope: Scope) -> None:
    await bench.store.limit(scope, Limits(max_running=1))
    claim = await bench.running("email")
    waiting = await bench.enqueue("email")
    async with asleep(bench.store, await bench.join()) as listener:
        await bench.succeed(claim)
        assert await listener.next() is Wake.WORK
        assert await bench.claimed_jobs() == [waiting]


# Cancel and wake_another


async def test_a_cancel_reaches_the_worker_that_runs_the_job(bench: Bench) -> None:
    claim = await bench.running()
    async with listening(bench.store, await bench.worker()) as listener:
        await bench.jobs.cancel([claim.job])
        assert await listener.next() is Wake.CANCEL


async def test_a_cancel_by_another_process_reaches_the_worker_too(bench: Bench, second_store: Store) -> None:
    claim = await bench.running()
    async with listening(bench.store, await bench.worker()) as listener:
        await second_store.tenant(ACME).cancel([claim.job])
        assert await listener.next() is Wake.CANCEL


async def test_a_wake_is_passed_on_to_another_sleeper(bench: Bench) -> None:
    first = await bench.worker()
    async with asleep(bench.store, first), asleep(bench.store, await bench.join()) as listener:
        await bench.enqueue()  # wakes the one that fell asleep first
        await bench.store.wake_another(first)
        assert await listener.next() is Wake.WORK


async def test_a_wake_is_passed_on_between_processes(bench: Bench, second_store: Store) -> None:
    first, second = await bench.worker(), await bench.join(store=second_store)
    async with asleep(bench.store, first), asleep(second_store, second) as listener:
        await bench.enqueue()
        await bench.store.wake_another(first)
        assert await listener.next() is Wake.WORK


async def test_a_wake_is_passed_on_to_one_that_can_run_the_rest(bench: Bench) -> None:
    first, reports, emails = await bench.worker(), await bench.join("report"), await bench.join("email")
    async with asleep(bench.store, first), asleep(bench.store, reports), asleep(bench.store, emails) as listener:
        await bench.jobs.enqueue([NewJob(definition="report", priority=1), NewJob(definition="email")])
        await bench.claim_one(first)
        await bench.store.wake_another(first)
        assert await listener.next() is Wake.WORK


async def test_a_wake_is_passed_on_to_one_that_serves_the_tenant(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    first = await acme.worker()
    async with (
        asleep(acme.store, first),
        asleep(acme.store, await other.worker()),
        asleep(acme.store, await acme.join()) as listener,
    ):
        await acme.enqueue()
        await acme.store.wake_another(first)
        assert await listener.next() is Wake.WORK


async def test_passing_a_wake_on_when_nobody_sleeps_does_nothing(bench: Bench) -> None:
    await bench.store.wake_another(await bench.worker())
    assert await bench.status(await bench.enqueue()) is Status.QUEUED


# No wake is lost


async def test_no_job_is_slept_through_while_producers_and_a_worker_race(bench: Bench) -> None:
    """A worker that only ever claims after a wake gets every job, however enqueue and settle interleave."""
    registration, total, done = await bench.worker(), 60, 0

    async def produce() -> None:
        for _ in range(total // 3):
            await bench.enqueue()

    producers = [asyncio.create_task(produce()) for _ in range(3)]
    async with listening(bench.store, registration) as listener, asyncio.timeout(PATIENCE.total_seconds()):
        while done < total:
            settled = await bench.store.prepare_to_sleep(registration)
            claims = list(settled.claims)
            if not claims and not settled.more:
                assert await listener.next() is Wake.WORK
                claims = await bench.claim()
            for claim in claims:
                await bench.succeed(claim)
            done += len(claims)
        await asyncio.gather(*producers)
    assert (await bench.jobs.counts(1000))[Status.SUCCEEDED] == total

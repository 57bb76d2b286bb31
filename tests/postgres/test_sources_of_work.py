"""Every statement that brings work wakes a sleeper for it. Each of these tests fails if one source forgets to."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, blocked, heard_so_far
from tests.store.bench import LEASE, REPORT, Bench, keyed
from tests.store.wake_listener import asleep, fall_asleep
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.dedupe import Dedupe, OnConflict, WhileActive
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, NewJob
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import Canceled, LeaseLost, Raised, Released, Snoozed, Succeeded
from leasehold.store import FinishAnswer, Wake

TENANT = Scope(ScopeKind.TENANT, ACME)
DEFINITION = Scope(ScopeKind.DEFINITION, "report")
SCOPES = pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])

Source = Callable[[Bench, Raw], AsyncGenerator[None, None]]
"""Prepares up to its first yield, while all are awake, and then brings one job that is ready now."""


async def one(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    yield
    await bench.enqueue()


async def alike(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    yield
    await bench.enqueue_many(3)


async def with_a_key(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    yield
    await bench.enqueue(dedupe=keyed())


async def replaced(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    await bench.enqueue(dedupe=keyed(), delay=2 * HOUR)
    yield
    replacing = Dedupe(keyed().key, WhileActive(), OnConflict.REPLACE)
    await bench.jobs.enqueue([NewJob(definition="report", dedupe=replacing)])


async def in_chunks(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    yield
    async with bench.jobs.bulk_transaction() as bulk:
        await bulk.enqueue([NewJob(definition="report")])
        await bulk.enqueue([NewJob(definition="report")])


async def by_sql(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    yield
    await observer.execute("select leasehold.enqueue($1, 'report')", ACME)


async def retry(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    job = await bench.failed()
    yield
    await bench.jobs.retry({job: 1})


async def run_now(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    job = await bench.enqueue(delay=2 * HOUR)
    yield
    await bench.jobs.reschedule([job], 0 * HOUR)


async def given_back(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    claim = await bench.running()
    yield
    await bench.finish(claim, Released())


async def snoozed(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    claim = await bench.running()
    yield
    await bench.finish(claim, Snoozed(0 * HOUR))


async def crashed(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    claim = await bench.running(registration=await bench.join())
    yield
    await observer.execute("delete from leasehold.workers where id = $1::uuid", claim.worker)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, LeaseLost())


async def promoted(bench: Bench, observer: Raw) -> AsyncGenerator[None, None]:
    """By a worker that does not serve the job's tenant, before the sleeper's own timer."""
    elsewhere = await bench.join(tenants=(OTHER,))
    await bench.enqueue(delay=HOUR / 4)
    yield
    await observer.execute("update leasehold.sleepers set wakes_at = wakes_at + interval '1 hour'")
    await bench.move_clock(HOUR / 4)
    assert not (await bench.store.claim(elsewhere, 10)).claims


SOURCES: list[Source] = [
    one,
    alike,
    with_a_key,
    replaced,
    in_chunks,
    by_sql,
    retry,
    run_now,
    given_back,
    snoozed,
    crashed,
    promoted,
]


@pytest.mark.parametrize("source", SOURCES)
async def test_a_source_of_work_wakes_a_sleeper(bench: Bench, observer: Raw, source: Source) -> None:
    """The sleeper has a timer for half an hour from now: what is not ready wakes it for an earlier time only."""
    await bench.enqueue(delay=HOUR / 2)
    async with aclosing(source(bench, observer)) as making:
        await anext(making)
        registration = await bench.worker()
        async with asleep(bench.store, registration) as listener:
            with pytest.raises(StopAsyncIteration):
                await anext(making)
            assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


@pytest.mark.parametrize("turned", [False, True])
async def test_a_sleeper_is_woken_for_each_of_its_definitions(bench: Bench, observer: Raw, turned: bool) -> None:
    """By a plain enqueue, which asks the count of its own definition's share."""
    other = await observer.fetchval(
        """
        select key from (select 'other-' || n as key from generate_series(1, 1000) n) named
        where leasehold.share_of(key) <> leasehold.share_of('report') limit 1
        """
    )
    await bench.store.sync_definitions([REPORT, Definition(other)])
    registration = await bench.join(*([other, "report"] if turned else ["report", other]))
    for definition in ("report", other):
        async with asleep(bench.store, registration) as listener:
            await bench.enqueue(definition)
            assert await heard_so_far(observer, {registration: listener}) == {registration: 1}, definition
            await bench.succeed(await bench.claim_one(registration))


# Ends that free a capped scope


End = Callable[[Bench, Claim], AsyncGenerator[None, None]]


async def in_a_transaction(bench: Bench, claim: Claim) -> AsyncGenerator[None, None]:
    transaction = bench.store.transaction(claim, None)
    await transaction.begin()
    yield
    assert await transaction.finish(None) is FinishAnswer.FINISHED
    await transaction.commit()


async def succeeded(bench: Bench, claim: Claim) -> AsyncGenerator[None, None]:
    yield
    await bench.finish(claim, Succeeded())


async def canceled(bench: Bench, claim: Claim) -> AsyncGenerator[None, None]:
    yield
    await bench.finish(claim, Canceled())


async def retried_later(bench: Bench, claim: Claim) -> AsyncGenerator[None, None]:
    """The sleeper's own timer comes before the retry: only the freed room can wake it."""
    yield
    await bench.finish(claim, Raised("Unlucky", "no jitter", retry_in=2 * HOUR))


async def lost(bench: Bench, claim: Claim) -> AsyncGenerator[None, None]:
    yield
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, LeaseLost())


@SCOPES
@pytest.mark.parametrize("end", [in_a_transaction, succeeded, canceled, retried_later, lost])
async def test_an_end_that_frees_a_cap_wakes_a_sleeper(bench: Bench, observer: Raw, scope: Scope, end: End) -> None:
    await bench.enqueue("email", delay=HOUR)
    claim = await bench.running(registration=await bench.join(lease=LEASE), max_attempts=1 if end is lost else 3)
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.enqueue()
    registration = await bench.worker()
    async with aclosing(end(bench, claim)) as ending:
        await anext(ending)
        async with asleep(bench.store, registration) as listener:
            with pytest.raises(StopAsyncIteration):
                await anext(ending)
            assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


@SCOPES
async def test_an_administrator_that_lifts_a_hold_wakes_a_sleeper(bench: Bench, observer: Raw, scope: Scope) -> None:
    await bench.running()
    await bench.enqueue()
    registration = await bench.worker()
    await bench.store.limit(scope, Limits(max_running=1))
    async with asleep(bench.store, registration) as listener:
        await bench.store.limit(scope, Limits(max_running=2))
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}
    await bench.store.pause(scope, Pause("maintenance"))
    async with asleep(bench.store, registration) as listener:
        await bench.store.pause(scope, None)
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_an_activated_definition_wakes_a_sleeper(bench: Bench, observer: Raw) -> None:
    await bench.enqueue()
    await bench.store.activate("report", False)
    registration = await bench.worker()
    async with asleep(bench.store, registration) as listener:
        await bench.store.activate("report", True)
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


@SCOPES
async def test_a_finish_looks_for_held_work_once_it_has_the_lock(
    bench: Bench, observer: Raw, connections: Connections, scope: Scope
) -> None:
    """A job is committed while the finish waits for the lock: a worker that fell asleep before has not seen it."""
    await observer.execute(
        "create or replace function leasehold.longest_wait_for_sleepers() returns text language sql as "
        "$$ select '1min' $$"
    )
    holder = await connections.open()
    await bench.store.limit(scope, Limits(max_running=1))
    claim = await bench.running()
    registration = await bench.join()
    async with asleep(bench.store, registration) as listener:
        await holder.execute("select pg_advisory_lock(leasehold.sleep_key())")
        finishing = asyncio.create_task(bench.succeed(claim))
        await blocked(observer, 1)
        await observer.execute(
            "select leasehold.enqueue_jobs($1, $2::jsonb, false)", ACME, '[{"definition": "report", "payload": {}}]'
        )
        await holder.execute("select pg_advisory_unlock(leasehold.sleep_key())")
        await finishing
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_a_finish_in_a_transaction_tells_who_waits_for_it(bench: Bench, observer: Raw) -> None:
    """Without the notification a waiter looks every 5 s."""
    told = asyncio.Event()
    await observer.add_listener(
        await observer.fetchval("select leasehold.channel_for_results()"), lambda *word: told.set()
    )
    claim = await bench.running()
    await observer.execute("update leasehold.jobs set awaited = true")
    transaction = bench.store.transaction(claim, None)
    await transaction.begin()
    assert await transaction.finish("1") is FinishAnswer.FINISHED
    assert not told.is_set()
    await transaction.commit()
    await asyncio.wait_for(told.wait(), 30)


# A role that takes our lock


@pytest.mark.parametrize("source", [one, alike, with_a_key, given_back, run_now])
async def test_no_producer_hangs_behind_a_lock_that_anyone_can_take(
    bench: Bench, observer: Raw, connections: Connections, source: Source
) -> None:
    """Any role that may connect can hold it for ever. Producers then notify all listeners."""
    hostile = await connections.open()
    async with aclosing(source(bench, observer)) as making:
        await anext(making)
        registration = await bench.worker()
        async with asleep(bench.store, registration) as listener:
            await hostile.execute("select pg_advisory_lock(leasehold.sleep_key())")
            async with asyncio.timeout(20):
                with pytest.raises(StopAsyncIteration):
                    await anext(making)
            assert await listener.next() is Wake.WORK
        await hostile.execute("select pg_advisory_unlock_all()")


async def test_a_finish_does_not_hang_behind_that_lock_either(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    hostile = await connections.open()
    await bench.store.limit(TENANT, Limits(max_running=1))
    claim = await bench.running()
    await bench.enqueue()
    async with asleep(bench.store, await bench.join()) as listener:
        await hostile.execute("select pg_advisory_lock(leasehold.sleep_key())")
        async with asyncio.timeout(20):
            await bench.succeed(claim)
        assert await listener.next() is Wake.WORK


async def test_a_worker_that_goes_to_sleep_meanwhile_is_notified(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """The producer could not take the lock, so the worker fell asleep before the producer's commit."""
    hostile, producer, registration = await connections.open(), await connections.open(), await bench.worker()
    async with asleep(bench.store, registration) as listener:
        await hostile.execute("select pg_advisory_lock(leasehold.sleep_key())")
        transaction = producer.transaction()
        await transaction.start()
        await bench.jobs.enqueue([NewJob(definition="report")], within=producer)
        await hostile.execute("select pg_advisory_unlock(leasehold.sleep_key())")
        await fall_asleep(bench.store, registration)
        await transaction.commit()
        assert await listener.next() is Wake.WORK


async def test_a_producer_that_was_refused_keeps_its_lock_timeout(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    hostile, producer = await connections.open(), await connections.open()
    await hostile.execute("select pg_advisory_lock(leasehold.sleep_key())")
    async with producer.transaction():
        await producer.execute("set local lock_timeout = '7s'")
        await bench.jobs.enqueue([NewJob(definition="report")], within=producer)
        assert await producer.fetchval("show lock_timeout") == "7s"

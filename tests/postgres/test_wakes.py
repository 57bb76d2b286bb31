"""The target of a wake: one worker that listens and can run the job, whatever other workers do at that moment."""

import asyncio
from datetime import timedelta

import pytest
from tests.conftest import Raw, eventually
from tests.postgres.race_tools import SOON, Connections, blocked, heard_so_far, sleepers
from tests.postgres.sleeping_workers import DEFINITION, TENANT, all_asleep
from tests.store.bench import Bench
from tests.store.wake_listener import asleep, fall_asleep, listening
from tests.tenant_kit import HOUR, OTHER

from leasehold.model.job import NewJob
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.store import Registration, Store, Wake


async def gone(store: Store, observer: Raw, registration: Registration) -> None:
    """A worker that fell asleep and then died with kill -9: its row exists, no session listens."""
    async with asleep(store, registration):
        pass

    async def not_listening() -> bool:
        return not await observer.fetchval("select leasehold.listens($1::uuid)", registration.worker)

    await eventually(not_listening, what="the end of the listening session")
    assert registration.worker in await sleepers(observer)


# One job, one wake


async def test_one_of_four_sleepers_is_woken_for_one_job(bench: Bench, observer: Raw) -> None:
    async with all_asleep(bench.store, *[await bench.join() for _ in range(4)]) as listener:
        await bench.enqueue()
        assert (await heard_so_far(observer, listener)).total() == 1


async def test_one_of_four_sleepers_is_woken_for_a_batch(bench: Bench, observer: Raw) -> None:
    async with all_asleep(bench.store, *[await bench.join() for _ in range(4)]) as listener:
        await bench.enqueue_many(50)
        assert (await heard_so_far(observer, listener)).total() == 1


async def test_a_batch_of_two_definitions_wakes_one_sleeper_for_each(bench: Bench, observer: Raw) -> None:
    reports, more_reports, emails = await bench.join("report"), await bench.join("report"), await bench.join("email")
    async with all_asleep(bench.store, reports, more_reports, emails) as listener:
        await bench.jobs.enqueue([NewJob(definition=key) for key in ("email", "report", "email", "report")])
        assert await heard_so_far(observer, listener) == {reports: 1, emails: 1}


async def test_a_worker_without_the_definition_is_not_woken(bench: Bench, observer: Raw) -> None:
    emails, reports = await bench.join("email"), await bench.join("report")
    async with all_asleep(bench.store, emails, reports) as listener:
        await bench.enqueue("report")
        assert await heard_so_far(observer, listener) == {reports: 1}


async def test_a_worker_without_the_tenant_is_not_woken(bench: Bench, observer: Raw) -> None:
    other, mine = await bench.join(tenants=(OTHER,)), await bench.join()
    async with all_asleep(bench.store, other, mine) as listener:
        await bench.enqueue()
        assert await heard_so_far(observer, listener) == {mine: 1}


async def test_a_woken_worker_is_no_sleeper_any_more(bench: Bench, observer: Raw) -> None:
    first, second = await bench.join(), await bench.join()
    async with all_asleep(bench.store, first, second) as listener:
        for _ in range(2):
            await bench.enqueue()
        assert await heard_so_far(observer, listener) == {first: 1, second: 1}
        assert await sleepers(observer) == []


async def test_a_rolled_back_enqueue_wakes_no_worker(bench: Bench, observer: Raw, connections: Connections) -> None:
    connection = await connections.open()
    registration = await bench.worker()
    async with all_asleep(bench.store, registration) as listener:
        transaction = connection.transaction()
        await transaction.start()
        await bench.jobs.enqueue([NewJob(definition="report")], within=connection)
        await transaction.rollback()
        assert await heard_so_far(observer, listener) == {}
        assert await sleepers(observer) == [registration.worker]


async def test_a_producer_that_sees_no_sleepers_wakes_all(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """Under REPEATABLE READ its snapshot may be older than their sleep."""
    connection = await connections.open()
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute("select from leasehold.sleepers")
        registrations = [await bench.join() for _ in range(2)]
        async with all_asleep(bench.store, *registrations) as listener:
            await bench.jobs.enqueue([NewJob(definition="report")], within=connection)
            await connection.execute("commit")
            assert await heard_so_far(observer, listener) == dict.fromkeys(registrations, 1)
            await connection.execute("begin")


# Sleepers that are gone


async def test_a_sleeper_that_stopped_listening_is_passed_over(bench: Bench, observer: Raw) -> None:
    dead, living = await bench.join(), await bench.join()
    await gone(bench.store, observer, dead)
    async with all_asleep(bench.store, living) as listener:
        await bench.enqueue()
        assert await heard_so_far(observer, listener) == {living: 1}
        assert await sleepers(observer) == []


async def test_a_sleeper_with_a_terminated_session_returns_with_a_wake(bench: Bench, observer: Raw) -> None:
    """Other workers may have been woken instead, or none: it has to look itself."""
    async with all_asleep(bench.store, await bench.worker()) as listener:
        terminated = await observer.fetchval(
            """
            select count(pg_terminate_backend(pid)) from pg_locks
            where locktype = 'advisory' and mode = 'ShareLock' and pid <> pg_backend_pid()
              and database = (select oid from pg_database where datname = current_database())
            """
        )
        assert terminated == 1
        (heard,) = listener.values()
        assert await heard.next() is Wake.WORK


async def test_a_returning_listener_finds_a_job_that_it_missed(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    await gone(bench.store, observer, registration)
    job = await bench.enqueue()
    async with listening(bench.store, registration):
        assert await bench.claimed_jobs() == [job]


async def test_a_worker_listens_again_beside_its_old_session(bench: Bench, connections: Connections) -> None:
    """The network went away without a word: for the server the old session lives on, for hours if need be."""
    registration, old = await bench.worker(), await connections.open()
    await old.execute("select pg_advisory_lock_shared(leasehold.listener_key($1::uuid))", registration.worker)
    async with asyncio.timeout(SOON.total_seconds()), listening(bench.store, registration) as listener:
        await fall_asleep(bench.store, registration)
        await bench.enqueue()
        assert await listener.next() is Wake.WORK


# Sleepers that another producer holds


async def test_a_sleeper_held_by_a_rollback_is_woken_for_another_job(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    first = await connections.open()
    registration = await bench.worker()
    async with all_asleep(bench.store, registration) as listener:
        transaction = first.transaction()
        await transaction.start()
        await bench.jobs.enqueue([NewJob(definition="report")], within=first)
        await bench.enqueue()
        assert await heard_so_far(observer, listener) == {registration: 1}
        await transaction.rollback()


async def test_a_producer_waits_a_moment_for_the_holder_of_a_sleeper(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    """Otherwise each of 32 producers would notify, one disk write after the other."""
    await observer.execute(
        "create or replace function leasehold.patience() returns text language sql as $$ select '1min' $$"
    )
    registration, first = await bench.join(), await connections.open()
    async with asleep(bench.store, registration) as listener:
        transaction = first.transaction()
        await transaction.start()
        await bench.jobs.enqueue([NewJob(definition="report")], within=first)
        second = asyncio.create_task(bench.enqueue())
        await blocked(observer, 1)
        await transaction.commit()
        await second
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_a_producer_leaves_the_lock_timeout_of_its_caller_as_it_was(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    registration, first, second = await bench.join(), await connections.open(), await connections.open()
    async with asleep(bench.store, registration), first.transaction(), second.transaction():
        await second.execute("set local lock_timeout = '7s'")
        await bench.jobs.enqueue([NewJob(definition="report")], within=first)
        await bench.jobs.enqueue([NewJob(definition="report")], within=second)
        assert await second.fetchval("show lock_timeout") == "7s"


async def test_a_dead_held_sleeper_takes_no_wake_from_a_live_one(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    """The first producer has picked both, the dead and the living. It rolls back; the second one's job stays."""
    first = await connections.open()
    dead, living = await bench.join(), await bench.join()
    await gone(bench.store, observer, dead)
    async with all_asleep(bench.store, living) as listener:
        transaction = first.transaction()
        await transaction.start()
        await bench.jobs.enqueue([NewJob(definition="report")], within=first)
        await bench.enqueue()
        await transaction.rollback()
        assert await heard_so_far(observer, listener) == {living: 1}


async def test_a_new_sleep_does_not_wait_for_a_held_older_one(bench: Bench, connections: Connections) -> None:
    first = await connections.open()
    registration = await bench.worker()
    async with all_asleep(bench.store, registration), first.transaction():
        await bench.jobs.enqueue([NewJob(definition="report")], within=first)
        settled = await bench.store.prepare_to_sleep(registration)
        assert (list(settled.claims), settled.more) == ([], True)


# Work that comes up otherwise


@pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])
async def test_a_finish_in_a_scope_wakes_a_worker_for_its_waiting_jobs(
    bench: Bench, observer: Raw, scope: Scope
) -> None:
    """The first sleeper serves the scope, too, but none of the jobs that wait in it."""
    await bench.store.limit(scope, Limits(max_running=1))
    claim = await bench.running()
    await bench.enqueue()
    useless = await bench.join("email") if scope is TENANT else await bench.join("report", tenants=(OTHER,))
    useful = await bench.join("report")
    async with all_asleep(bench.store, useless, useful) as listener:
        await bench.succeed(claim)
        assert (await heard_so_far(observer, listener))[useful] == 1


@pytest.mark.parametrize("scope", [TENANT, DEFINITION], ids=["tenant", "definition"])
async def test_the_end_of_a_pause_wakes_one_that_can_run_what_was_held(
    bench: Bench, observer: Raw, scope: Scope
) -> None:
    await bench.store.pause(scope, Pause("maintenance"))
    await bench.enqueue()
    useless = await bench.join("email") if scope is TENANT else await bench.join("report", tenants=(OTHER,))
    useful = await bench.join("report")
    async with all_asleep(bench.store, useless, useful) as listener:
        await bench.store.pause(scope, None)
        assert (await heard_so_far(observer, listener))[useful] == 1


async def test_a_worker_that_settled_into_work_is_not_taken_for_a_sleeper(bench: Bench, observer: Raw) -> None:
    """It runs the job that settling gave it. The next job is for the one that really sleeps."""
    busy, idle = await bench.join(), await bench.join()
    await bench.enqueue()
    async with listening(bench.store, busy) as busy_ears:
        assert len((await bench.store.prepare_to_sleep(busy)).claims) == 1
        async with all_asleep(bench.store, idle) as listener:
            await bench.enqueue()
            assert await heard_so_far(observer, {busy: busy_ears, **listener}) == {idle: 1}


# Timers


async def test_an_earlier_future_job_moves_a_sleepers_timer(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    await bench.enqueue(delay=3 * HOUR)
    async with all_asleep(bench.store, registration) as listener:
        await bench.enqueue(delay=HOUR)
        assert await heard_so_far(observer, listener) == {registration: 1}
        next_due = await fall_asleep(bench.store, registration)
    assert next_due is not None
    assert next_due <= HOUR
    assert await sleeps_for(observer) <= HOUR


async def test_a_later_future_job_wakes_no_sleeper(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    await bench.enqueue(delay=HOUR)
    async with all_asleep(bench.store, registration) as listener:
        before = await observer.fetch("select id, wakes_at from leasehold.sleepers")
        await bench.enqueue(delay=3 * HOUR)
        assert await heard_so_far(observer, listener) == {}
        assert await observer.fetch("select id, wakes_at from leasehold.sleepers") == before
    assert timedelta(minutes=59) < await sleeps_for(observer) <= HOUR


async def sleeps_for(observer: Raw) -> timedelta:
    (row,) = await observer.fetch("select wakes_at - leasehold.clock() as left from leasehold.sleepers")
    left: timedelta = row["left"]
    return left

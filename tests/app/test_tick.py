"""A tick: due work in the caller's own process, bounded, and safe beside others."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any

import asyncpg
import pytest
from tests.conftest import PATIENCE, Clock

from leasehold import Fail, InvalidInput, Job, Leasehold, Snooze, Status, Steps, Ticked
from leasehold.engines.postgres.store import PostgresStore
from leasehold.errors import BlockingCall, Unreachable
from leasehold.model.job import Claim
from leasehold.model.status import AttemptStatus
from leasehold.store import Claimed, Registration, Renewal, Store, Subscription, WorkerFacts
from leasehold.worker.attempt import Attempt
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.heartbeat import Leases
from leasehold.worker.tick import LEASE

LONG = PATIENCE.total_seconds()
SECOND = timedelta(seconds=1)


async def workers(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select count(*) from leasehold.workers"))
    finally:
        await connection.close()


def freeze_heartbeats_after_one(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once that one is written: none is under way then, and none comes after it."""
    renew, written = PostgresStore.renew, threading.Event()

    async def once(
        store: PostgresStore, registration: Registration, held: Sequence[Claim], lease: timedelta, **asks: bool
    ) -> Renewal:
        if written.is_set():
            raise Unreachable("frozen.", fix="Nothing was changed.")
        renewal = await renew(store, registration, held, lease, **asks)
        written.set()
        return renewal

    monkeypatch.setattr(PostgresStore, "renew", once)
    return written


def one_second_passes(monkeypatch: pytest.MonkeyPatch, when: Callable[[], bool]) -> None:
    """For a tick of less, its time is over then and not before, however long it takes to come so far."""
    # Not by its dotted name, which leads to the function of the same name.
    monkeypatch.setattr(import_module("leasehold.worker.tick"), "monotonic", lambda: float(when()))


def greeter(app: Leasehold) -> Any:
    @app.job
    async def greet(job: Job, name: str) -> str:
        return f"hello {name}"

    return greet


async def test_a_tick_runs_what_is_due_and_says_what_it_did(app: Leasehold, database_url: str) -> None:
    greet = greeter(app)

    @app.job(backoff=Steps(3600))
    async def stumble(job: Job) -> None:
        raise ConnectionError

    @app.job
    def fail(job: Job) -> None:
        raise Fail("no use")

    @app.job
    async def nap(job: Job) -> None:
        raise Snooze(timedelta(hours=1))

    async with app.open():
        acme = app.tenant("acme")
        done = [await acme.aenqueue(greet, str(number)) for number in range(3)]
        for other in (stumble, fail, nap):
            await acme.aenqueue(other)
        await acme.options(delay="1h").aenqueue(greet, "later")
        assert await app.atick(max_seconds=LONG) == Ticked(ran=6, succeeded=3, failed=2)
        assert await app.atick(max_seconds=LONG) == Ticked()
        assert [await each.aresult(0) for each in done] == ["hello 0", "hello 1", "hello 2"]
    assert await workers(database_url) == 0


def test_it_can_be_called_where_there_is_no_loop(app: Leasehold) -> None:
    placed = app.tenant("acme").enqueue(greeter(app), "Ada")
    assert app.tick(max_seconds=LONG).succeeded == 1
    assert placed.result(0) == "hello Ada"


async def test_a_blocking_tick_on_a_loop_names_its_twin(app: Leasehold) -> None:
    with pytest.raises(BlockingCall, match="atick"):
        app.tick()


async def test_max_jobs_limits_a_tick_and_the_next_runs_the_rest(app: Leasehold) -> None:
    greet = greeter(app)
    async with app.open():
        await app.tenant("acme").aenqueue_many([greet.bind(str(number)) for number in range(5)])
        first = await app.atick(max_jobs=3, max_seconds=LONG)
        assert (first.ran, first.more) == (3, True)
        second = await app.atick(max_jobs=3, max_seconds=LONG)
        assert (second.ran, second.more) == (2, False)


async def test_what_its_jobs_enqueue_is_run_in_the_same_tick(app: Leasehold) -> None:
    @app.job
    async def count_down(job: Job, left: int) -> None:
        if left:
            await app.tenant(job.tenant).aenqueue(count_down, left - 1)

    async with app.open():
        await app.tenant("acme").aenqueue(count_down, 3)
        assert (await app.atick(max_seconds=LONG)).ran == 4


async def test_a_tick_that_ran_max_jobs_says_that_there_may_be_more(app: Leasehold) -> None:
    greet = greeter(app)

    @app.job
    async def follow_up(job: Job) -> None:
        await app.tenant(job.tenant).aenqueue(greet, "Ada")

    async with app.open():
        await app.tenant("acme").aenqueue(follow_up)
        first = await app.atick(max_jobs=1, max_seconds=LONG)
        second = await app.atick(max_seconds=LONG)
        assert [(each.ran, each.more) for each in (first, second)] == [(1, True), (1, False)]


async def test_a_job_that_ends_during_an_empty_claim_is_not_missed(
    app: Leasehold, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet, looked, over = greeter(app), asyncio.Event(), asyncio.Event()
    claim, forget = PostgresStore.claim, ClaimLedger.remove

    @app.job
    async def follow_up(job: Job) -> None:
        await looked.wait()
        await app.tenant(job.tenant).aenqueue(greet, "Ada")

    async def answered_late(store: PostgresStore, registration: Registration, limit: int) -> Claimed:
        claimed = await claim(store, registration, limit)
        if not claimed.claims:
            looked.set()
            await over.wait()
        return claimed

    def forgotten(ledger: ClaimLedger, of: Sequence[Attempt]) -> None:
        forget(ledger, of)
        over.set()

    monkeypatch.setattr(PostgresStore, "claim", answered_late)
    monkeypatch.setattr(ClaimLedger, "remove", forgotten)
    async with app.open():
        await app.tenant("acme").aenqueue(follow_up)
        assert (await app.atick(max_seconds=LONG)).ran == 2


async def test_when_the_time_is_over_what_runs_is_given_back_at_no_cost(
    app: Leasehold, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []

    @app.job
    async def endless(job: Job) -> None:
        began.append(job.id)
        await asyncio.Event().wait()

    one_second_passes(monkeypatch, when=lambda: len(began) == 2)
    async with app.open():
        acme = app.tenant("acme")
        placed = [await acme.aenqueue(endless) for _ in range(3)]
        ticked = await app.atick(max_seconds=0.5, slots=2)
        assert (ticked.ran, ticked.given_back, ticked.more) == (0, 2, True)
        records = [await acme.aget(each.id) for each in placed]
        assert {record.status for record in records} == {Status.QUEUED}
        assert sorted((record.attempt, record.free_attempts) for record in records) == [(0, 0), (1, 1), (1, 1)]
    assert await workers(database_url) == 0


async def test_a_thread_that_outlives_the_tick_is_not_heard(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go = threading.Event(), threading.Event()

    @app.job
    def slow(job: Job) -> str:
        began.set()
        if job.attempt == 1:
            go.wait(LONG)
        return f"attempt {job.attempt}"

    one_second_passes(monkeypatch, when=began.is_set)
    async with app.open():
        placed = await app.tenant("acme").aenqueue(slow)
        assert (await app.atick(max_seconds=0.5)).given_back == 1
        assert (await app.atick(max_seconds=LONG)).succeeded == 1
        go.set()
        assert await placed.aresult(0) == "attempt 2"


async def test_claims_of_the_dead_are_reclaimed_and_run(app: Leasehold, store: Store, clock: Clock) -> None:
    greet = greeter(app)
    async with app.open():
        placed = await app.tenant("acme").aenqueue(greet, "Ada")
        registration = await store.join(Subscription(("greet",)), WorkerFacts("gone", 1), timedelta(seconds=15))
        assert len((await store.claim(registration, 1)).claims) == 1
        assert await app.atick(max_seconds=LONG) == Ticked()
        await clock.move(timedelta(minutes=1))
        assert (await app.atick(max_seconds=LONG)).reclaimed == 1
        await clock.move(timedelta(hours=1))
        assert (await app.atick(max_seconds=LONG)).succeeded == 1
        statuses = [each.status for each in await app.tenant("acme").jobs.aattempts(placed.id)]
        assert statuses == [AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED]


async def test_many_may_tick_at_once_and_each_job_runs_once(app: Leasehold) -> None:
    ran: Counter[str] = Counter()

    @app.job
    async def once(job: Job, number: int) -> None:
        ran[str(number)] += 1
        await asyncio.sleep(0)

    async with app.open():
        await app.tenant("acme").aenqueue_many([once.bind(number) for number in range(100)])
        ticks = await asyncio.gather(*(app.atick(max_seconds=LONG) for _ in range(4)))
    assert sum(each.succeeded for each in ticks) == 100
    assert set(ran.values()) == {1}


async def test_a_cancel_reaches_a_job_that_a_tick_runs(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next heartbeat, for a tick does not listen."""
    monkeypatch.setattr(import_module("leasehold.worker.tick"), "LEASE", Leases(busy=1.5 * SECOND, idle=1.5 * SECOND))
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.job
    async def endless(job: Job) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with app.open():
        acme = app.tenant("acme")
        placed = await acme.aenqueue(endless)
        ticking = asyncio.create_task(app.atick(max_seconds=LONG))
        await began.wait()
        await acme.acancel(placed.id)
        ticked = await ticking
        assert (ticked.ran, ticked.succeeded, ticked.failed, ticked.given_back) == (1, 0, 0, 0)
        assert stopped.is_set()
        assert (await acme.aget(placed.id)).status is Status.CANCELED
        assert [each.status for each in await acme.jobs.aattempts(placed.id)] == [AttemptStatus.CANCELED]


async def test_effects_work_in_a_tick_as_in_a_worker(app: Leasehold, database_url: str) -> None:
    @app.job
    async def write(job: Job) -> None:
        async with job.transaction() as connection:
            await connection.execute("create table public.written as select 1")

    async with app.open():
        await app.tenant("acme").aenqueue(write)
        assert (await app.atick(max_seconds=LONG)).succeeded == 1
    connection = await asyncpg.connect(database_url)
    assert await connection.fetchval("select count(*) from public.written") == 1
    await connection.close()


@pytest.mark.parametrize("limits", [{"max_jobs": 0}, {"max_seconds": 0}, {"max_seconds": "0s"}])
async def test_a_tick_without_jobs_or_time_is_refused(app: Leasehold, limits: dict[str, Any]) -> None:
    greeter(app)
    with pytest.raises(InvalidInput, match=r"is not (more than zero|at least 1)"):
        await app.atick(**limits)


@pytest.mark.parametrize("count", ["3", 1.5, True, None, Decimal("NaN"), 1j, 2**31, 2**70])
async def test_a_tick_of_other_than_a_number_of_jobs_is_refused(app: Leasehold, count: Any) -> None:
    greeter(app)
    with pytest.raises(InvalidInput, match=r"max_jobs=.* is not .*Nothing was run"):
        await app.atick(max_jobs=count)


async def test_a_process_that_dies_in_a_tick_leaves_only_a_lease(
    app: Leasehold, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform froze it, heartbeat and all: nothing is given back, and after the lease the next tick takes over.

    The frozen tick ends with its lease, which is 5 s here: 15 s would only be waited for.
    """
    assert LEASE.busy == 15 * SECOND
    monkeypatch.setattr(import_module("leasehold.worker.tick"), "LEASE", Leases(busy=5 * SECOND, idle=5 * SECOND))
    began = asyncio.Event()

    @app.job(backoff=Steps(0))
    async def slow(job: Job) -> int:
        began.set()
        if job.attempt == 1:
            await asyncio.Event().wait()
        return job.attempt

    written = freeze_heartbeats_after_one(monkeypatch)
    async with app.open():
        placed = await app.tenant("acme").aenqueue(slow)
        frozen = asyncio.create_task(app.atick(max_seconds=LONG))
        await began.wait()
        assert await asyncio.to_thread(written.wait, LONG)
        connection = await asyncpg.connect(app.settings.url)
        expires = await connection.fetchval("select lease_expires_at - leasehold.clock() from leasehold.workers")
        await connection.close()
        assert expires <= 5 * SECOND
        await clock.move(6 * SECOND)
        ticks = [await app.atick(max_seconds=LONG) for _ in range(2)]
        assert (sum(each.reclaimed for each in ticks), sum(each.succeeded for each in ticks)) == (1, 1)
        assert await placed.aresult(0) == 2
        await asyncio.wait_for(frozen, LONG)


async def test_a_tick_fires_schedules_and_runs_their_jobs(app: Leasehold, clock: Clock) -> None:
    ran: list[str] = []

    @app.schedule("@hourly", tenant="acme", payload={"name": "Ada"})
    @app.job
    async def greet(job: Job, name: str) -> None:
        ran.append(name)

    assert (await app.atick()).fired == 0
    await clock.move(timedelta(hours=1))
    ticked = await app.atick()
    assert (ticked.fired, ticked.succeeded, ran) == (1, 1, ["Ada"])


async def test_ticks_at_once_fire_each_schedule_once(app: Leasehold, clock: Clock) -> None:
    @app.schedule("@hourly", tenant="acme")
    @app.job
    async def greet(job: Job) -> None: ...

    await app.atick()
    await clock.move(timedelta(hours=1))
    ticked = await asyncio.gather(*(app.atick() for _ in range(4)))
    assert sum(each.fired for each in ticked) == 1
    assert sum(each.succeeded for each in ticked) == 1


async def test_a_tick_runs_the_selected_jobs_only(app: Leasehold) -> None:
    greet = greeter(app)

    @app.job
    async def other(job: Job) -> None: ...

    async with app.open():
        for tenant in ("acme", "globex"):
            await app.tenant(tenant).aenqueue(greet, "Ada")
            await app.tenant(tenant).aenqueue(other)
        assert (await app.atick(max_seconds=LONG, only=["gr*"], tenants=["acme"])).ran == 1
        assert (await app.atick(max_seconds=LONG, exclude=["greet"])).ran == 2
        assert (await app.atick(max_seconds=LONG)).ran == 1


async def test_a_tick_may_select_what_this_machine_can_not_run(app: Leasehold) -> None:
    greet = greeter(app)
    app.command("report", argv=["no-such-program-here"])
    async with app.open():
        await app.tenant("acme").aenqueue(greet, "Ada")
        assert (await app.atick(max_seconds=LONG, only=["report", "greet"])).ran == 1


async def names(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select count(*) from leasehold.worker_names"))
    finally:
        await connection.close()


async def test_a_tick_that_runs_nothing_leaves_no_name(app: Leasehold, database_url: str) -> None:
    greeter(app)
    async with app.open():
        await app.atick(max_seconds=LONG)
    assert await names(database_url) == 0


async def test_a_tick_that_ran_a_job_leaves_its_name(app: Leasehold, database_url: str) -> None:
    greet = greeter(app)
    async with app.open():
        await app.tenant("acme").aenqueue(greet, "Ada")
        await app.atick(max_seconds=LONG)
    assert await names(database_url) == 1

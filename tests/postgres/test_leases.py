"""Leases at the edge: heartbeats that commit late, evictions that began early, workers that come back together."""

import asyncio
from functools import partial

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Gate, at_once, blocked, task
from tests.store.bench import LEASE, Bench
from tests.store.wake_listener import listening
from tests.tenant_kit import DAY, HOUR

from leasehold.model.outcome import LeaseLost
from leasehold.store import Registration, Store

HEARTBEAT = "update leasehold.workers set lease_expires_at = leasehold.clock() + interval '1 hour' where id = $1"
# The same without asking for the time: it passes a closed gate.
UNGATED_HEARTBEAT = (
    "update leasehold.workers set lease_expires_at = lease_expires_at + interval '10 days' where id = $1"
)


@pytest.fixture
async def late(bench: Bench) -> Registration:
    """A worker that holds a job, and whose lease has run out; no other worker has evicted it yet."""
    registration = await bench.join(lease=LEASE)
    await bench.running(registration=registration)
    await bench.move_clock(2 * LEASE)
    return registration


async def alive(bench: Bench, registration: Registration) -> bool:
    return registration.worker in {worker.id for worker in await bench.store.workers()}


async def test_a_listed_worker_tells_its_oldest_job(bench: Bench) -> None:
    registration = await bench.join(lease=DAY)
    (before,) = [each for each in await bench.store.workers() if each.id == registration.worker]
    await bench.running(registration=registration)
    await bench.move_clock(HOUR)
    await bench.running(registration=registration)
    (after,) = [each for each in await bench.store.workers() if each.id == registration.worker]
    assert (before.oldest_started_at, before.listens) == (None, False)
    assert after.oldest_started_at is not None
    assert after.oldest_started_at - after.started_at < HOUR
    async with listening(bench.store, registration):
        (heard_of,) = [each for each in await bench.store.workers() if each.id == registration.worker]
    assert heard_of.listens


async def test_a_heartbeat_that_commits_late_is_not_evicted(
    bench: Bench, late: Registration, observer: Raw, second_store: Store
) -> None:
    async with observer.transaction():
        await observer.execute(HEARTBEAT, late.worker)
        assert list(await second_store.evict(10)) == []
    assert await alive(bench, late)
    assert list(await second_store.evict(10)) == []


async def test_a_late_heartbeat_is_not_evicted_by_another_heartbeat(
    bench: Bench, late: Registration, observer: Raw, second_store: Store
) -> None:
    other = await bench.join(lease=DAY, store=second_store)
    async with observer.transaction():
        await observer.execute(HEARTBEAT, late.worker)
        assert not (await second_store.renew(other, [], DAY)).orphans
    assert not (await second_store.renew(other, [], DAY)).orphans
    assert await alive(bench, late)


async def test_a_heartbeat_during_an_eviction_keeps_its_worker(
    bench: Bench, late: Registration, observer: Raw, second_store: Store, gate: Gate
) -> None:
    """The eviction's snapshot shows a lease that has run out; it must judge by the newest one."""
    await gate.close("fleet/evict")
    async with task(second_store.evict(10)) as evicting:
        await gate.holds(1)
        await observer.execute(UNGATED_HEARTBEAT, late.worker)
        await gate.open()
        assert list(await evicting) == []
    assert await alive(bench, late)


async def test_a_heartbeat_that_rolls_back_does_not_keep_its_worker_alive(
    bench: Bench, late: Registration, observer: Raw, second_store: Store
) -> None:
    transaction = observer.transaction()
    await transaction.start()
    await observer.execute(HEARTBEAT, late.worker)
    assert list(await second_store.evict(10)) == []
    await transaction.rollback()
    (orphan,) = await second_store.evict(10)
    assert orphan.worker == late.worker
    assert not await alive(bench, late)


async def test_a_heartbeat_that_waits_for_its_own_eviction_learns_of_it(
    bench: Bench, late: Registration, observer: Raw, second_store: Store
) -> None:
    async with observer.transaction():
        await observer.execute("delete from leasehold.workers where id = $1", late.worker)
        renewing = asyncio.create_task(second_store.renew(late, [], HOUR))
        await blocked(observer)
    assert not (await renewing).alive


async def test_two_late_workers_come_back_without_a_deadlock(bench: Bench, second_store: Store) -> None:
    """Each renews itself and would evict the other. One may be evicted, but both get an answer."""
    for _ in range(30):
        mine, other = await bench.join(lease=LEASE), await bench.join(lease=LEASE, store=second_store)
        await bench.move_clock(2 * LEASE)
        answers = await at_once(
            partial(bench.store.renew, mine, [], HOUR), partial(second_store.renew, other, [], HOUR)
        )
        assert any(answer.alive for answer in answers)
        for registration in (mine, other):
            await bench.store.leave(registration)


async def test_a_renewal_leaves_another_late_worker_alone(
    bench: Bench, late: Registration, observer: Raw, second_store: Store
) -> None:
    """The deadlock made by hand: the other has renewed itself, has not committed, and may want to evict us."""
    mine = await bench.join(lease=LEASE, store=second_store)
    await bench.move_clock(2 * LEASE)
    async with observer.transaction():
        await observer.execute(HEARTBEAT, late.worker)
        assert (await second_store.renew(mine, [], HOUR)).alive
        assert not await observer.fetch(
            """
            delete from leasehold.workers where id in (
                select id from leasehold.workers where lease_expires_at < leasehold.clock() for update skip locked
            ) returning id
            """
        )
    assert await alive(bench, late)
    assert await alive(bench, mine)


async def test_evictions_at_once_agree_and_one_of_them_decides(
    bench: Bench, late: Registration, second_store: Store
) -> None:
    evictions = await at_once(partial(bench.store.evict, 10), partial(second_store.evict, 10))
    orphans = {orphan for eviction in evictions for orphan in eviction}
    (orphan,) = orphans or await bench.store.evict(10)
    assert orphan.worker == late.worker
    answers = await at_once(*(partial(bench.finish_all, [(orphan, LeaseLost())]) for _ in range(2)))
    assert sorted(map(len, answers)) == [0, 1]


async def test_a_claim_that_commits_during_an_eviction_is_an_orphan(
    bench: Bench, observer: Raw, second_store: Store
) -> None:
    """The claim was under way when its registration ended: no other worker would ever run that job."""
    registration = await bench.join(lease=LEASE)
    job = await bench.enqueue()
    async with observer.transaction():
        await observer.execute(
            """
            update leasehold.jobs
            set status = 'running', ready = false, attempt = 1, worker_id = $1, started_at = leasehold.clock()
            """,
            registration.worker,
        )
        await bench.move_clock(2 * LEASE)
        assert list(await second_store.evict(10)) == []
    assert [orphan.job for orphan in await second_store.evict(10)] == [job]

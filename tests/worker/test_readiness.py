"""A worker that can't do its work is not ready, and says why: each reason really happens here.

An event loop that does not answer is a reason, too, and is found from outside: tests/runtime/test_status_server.py.
"""

import asyncio
from time import monotonic

import pytest
from tests.conftest import PATIENCE, eventually
from tests.proxy import Proxy
from tests.tenant_kit import HOUR
from tests.worker.shop import QUICKLY, SETTINGS, Payload, Shop, WatchedStores, only, session_of
from tests.worker.test_stuck import Stuck
from tests.worker.test_stuck import margin as margin
from tests.worker.test_stuck import stuck as stuck

from leasehold.store import Store
from leasehold.worker import Handlers, Job, Worker, heartbeat
from leasehold.worker.heartbeat import Leases

AWAY = "the database has been away for "
# The worker believes in its lease for as long as a test runs.
LONG = Leases(busy=HOUR, idle=2 * HOUR)


def handlers() -> Handlers:
    async def report(job: Job, payload: Payload) -> None: ...

    return only(report)


async def until_told(worker: Worker, *beginnings: str) -> None:
    """Returns when the worker has these problems and no others; each is named by its beginning."""

    async def is_told() -> bool:
        problems = worker.process_state().problems
        return len(problems) == len(beginnings) and all(map(str.startswith, problems, beginnings))

    await eventually(is_told, what=f"a worker with the problems {beginnings}")


async def until_at_rest_after_a_beat(shop: Shop, worker: Worker) -> None:
    """Returns when the worker has nothing to do, and its first heartbeat was answered: the lease is an idle one."""
    await shop.at_rest(worker)

    async def is_idle() -> bool:
        return session_of(worker).heartbeat.lease.left > LONG.busy.total_seconds()

    await eventually(is_idle, what="the answer to the first heartbeat")


class GatedStores:
    """Opens stores, except while the gate is closed: then an opening waits. Heartbeats open theirs in a thread."""

    def __init__(self, shop: Shop) -> None:
        self._stores = shop.stores
        self.is_closed = False

    async def __call__(self) -> Store:
        while self.is_closed:  # noqa: ASYNC110 - another thread may wait as well
            await asyncio.sleep(0.01)
        return await self._stores()


async def test_a_worker_that_waits_for_jobs_is_ready(shop: Shop) -> None:
    async with shop.working(handlers(), slots=3) as worker:
        state = worker.process_state()
    assert (state.problems, state.slots, state.running, state.stuck) == ((), 3, 0, 0)


async def test_a_worker_is_not_ready_before_it_has_joined(shop: Shop) -> None:
    stores = GatedStores(shop)
    stores.is_closed = True
    worker = Worker(stores, handlers(), SETTINGS)
    running = asyncio.create_task(worker.run())
    await until_told(worker, "the worker has not joined yet")
    stores.is_closed = False
    await until_told(worker)
    worker.stop()
    await running


async def test_a_worker_is_not_ready_while_the_database_is_away(shop: Shop, proxy: Proxy) -> None:
    async with shop.working(handlers(), WatchedStores(proxy.url), leases=LONG) as worker:
        await until_at_rest_after_a_beat(shop, worker)
        proxy.refuse()
        session_of(worker).heartbeat.hurry()
        await until_told(worker, AWAY)
        proxy.heal()
        await until_told(worker)


async def test_a_worker_without_a_registration_is_not_ready(shop: Shop) -> None:
    stores = GatedStores(shop)
    async with shop.working(handlers(), stores, leases=LONG) as worker:
        await until_at_rest_after_a_beat(shop, worker)
        stores.is_closed = True
        await shop.observer.execute("delete from leasehold.workers")
        session_of(worker).heartbeat.hurry()
        await until_told(worker, "the worker has no registration")
        stores.is_closed = False
        await until_told(worker)


async def test_a_worker_whose_lease_is_over_is_not_ready(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slept: by its clock the lease is over, and the thread of the heartbeat has not run yet."""
    async with shop.working(handlers(), leases=LONG) as worker:
        await until_at_rest_after_a_beat(shop, worker)
        asleep = 2 * LONG.idle.total_seconds()
        monkeypatch.setattr(heartbeat, "monotonic", lambda: monotonic() + asleep)
        assert worker.process_state().problems == (
            "the lease of the worker has run out: no heartbeat was answered in time",
        )
        session_of(worker).heartbeat.hurry()
        await until_told(worker)


async def test_a_worker_whose_slots_are_all_stuck_is_not_ready(shop: Shop, stuck: Stuck) -> None:
    async with shop.working(only(stuck.swallow, timeout=QUICKLY, max_attempts=1), slots=2) as worker:
        await shop.ended(await shop.enqueue())
        assert (worker.process_state().stuck, worker.process_state().problems) == (1, ())
        await shop.ended(await shop.enqueue())
        assert worker.process_state().problems == (
            "2 handlers still run although their attempts are over: report (2)",
        )
        await stuck.end()
        await until_told(worker)


async def test_a_worker_that_stops_is_not_ready(shop: Shop) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await may_end.wait()

    async with shop.working(only(report)) as worker:
        await shop.enqueue()
        await asyncio.wait_for(began.wait(), PATIENCE.total_seconds())
        worker.stop()
        state = worker.process_state()
        may_end.set()
    assert (state.problems, state.running) == (("the worker is stopping",), 1)

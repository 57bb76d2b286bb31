"""The database goes away, answers late, or forgets: the worker waits, comes back by itself, and nothing is lost.

Workers run inside the test and reach the database through a proxy. The fallback is an hour unless a test says
otherwise: whatever is picked up was not picked up by chance.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import eventually
from tests.postgres.crashes import crash, own_server
from tests.proxy import Proxy
from tests.tenant_kit import ACME, HOUR
from tests.worker.far_worker import TASK, Seen, asleep, at_work, began, ended, enqueue

from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.model.status import Status
from leasehold.store import Store, TenantJobs
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases

SHORT = timedelta(seconds=1.5)
FAST_SERVER = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


# --------------------------------------------------------------------------------------------- the database goes away


async def test_an_immediate_restart_costs_no_attempt(new_cluster: Path) -> None:
    """Its lease outlives the restart: what runs goes on, and what was only claimed is given back at no cost."""
    seen = Seen()
    with own_server(FAST_SERVER, new_cluster) as server:
        await migrate(server.url, schema="leasehold")
        store = await engine_for(server.url).open()
        try:
            await store.sync_definitions([TASK])
            acme = store.tenant(ACME)
            jobs = [await enqueue(acme, seconds=0.05 * (number % 4)) for number in range(150)]
            async with at_work(server.url, seen, slots=5):
                for wanted in (30, 60):

                    async def enough(wanted: int = wanted) -> bool:
                        return len(seen.ended) >= wanted

                    await eventually(enough, what=f"{wanted} ended jobs")
                    await crash(server)
                records = await ended(acme, jobs)
        finally:
            await store.close()
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert {record.tries for record in records} == {1}, "a try was used"


async def test_a_worker_cut_off_stops_its_handlers_before_its_lease_ends(
    acme: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    """Whatever the database heard before the black hole opened, the lease it knows ends at most one lease after."""
    async with at_work(proxy.url, seen, lease=SHORT):
        job = await enqueue(acme, seconds=60)
        await began(seen, job)
        proxy.hold()
        cut_off = time.monotonic()
        await asyncio.sleep(3 * SHORT.total_seconds())
        assert job in seen.stopped, "the handler runs on, and others may have its job"
        assert seen.stopped[job] - cut_off < SHORT.total_seconds()
        record = await acme.get(job)
        assert record is not None
        assert not record.status.final
        proxy.heal()
        (record,) = await ended(acme, [job])
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 2, "by attempt 2")
    assert seen.started == [job, job]
    assert seen.ended == [job]


async def test_a_worker_cut_off_before_its_first_beat_stops_its_handlers(
    acme: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    """The heartbeat has a connection of its own, and opening it can hang as well."""
    job = await enqueue(acme, seconds=60)
    opened = 0
    cut_off: list[float] = []

    async def open_and_hold() -> Store:
        nonlocal opened
        opened += 1
        if opened == 2:  # the heartbeat's
            await began(seen, job)
            cut_off.append(time.monotonic())
            proxy.hold()
        return await engine_for(proxy.url).open()

    worker = Worker(
        open_and_hold, seen.handlers(), WorkerSettings(leases=Leases(busy=SHORT, idle=SHORT), fallback=HOUR)
    )
    running = asyncio.create_task(worker.run())
    try:

        async def held() -> bool:
            return bool(cut_off)

        await eventually(held, what="the black hole")
        await asyncio.sleep(SHORT.total_seconds())
        assert seen.stopped[job] - cut_off[0] < SHORT.total_seconds()
        proxy.heal()
        (record,) = await ended(acme, [job])
        assert (record.status, record.attempt) == (Status.SUCCEEDED, 2)
    finally:
        worker.stop()
        proxy.heal()
        async with asyncio.timeout(30):
            await running


async def test_connections_that_died_without_a_word_are_replaced(
    acme: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    """As with a forgetful NAT or a moved server: nothing comes back on any of them, and no error either."""
    async with at_work(proxy.url, seen, lease=SHORT):
        await asleep(ask)
        proxy.strand()
        (record,) = await ended(acme, [await enqueue(acme)])
    assert record.status is Status.SUCCEEDED


@pytest.mark.parametrize(
    "words_of_its_statement", [b"waits_for_locks", b"final_status"], ids=["claiming", "finishing"]
)
async def test_a_silently_dead_connection_does_not_stop_the_worker(
    words_of_its_statement: bytes, acme: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    """Its heartbeat goes on, so nobody would ever take its jobs from it."""
    async with at_work(proxy.url, seen, lease=SHORT):
        await ended(acme, [await enqueue(acme)])
        await asleep(ask)
        assert proxy.strand(words_of_its_statement) == 1
        (record,) = await ended(acme, [await enqueue(acme)])
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)


async def test_connections_that_died_without_a_word_are_not_kept(
    acme: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(proxy.url, seen, lease=SHORT):
        await ended(acme, [await enqueue(acme)])
        await asleep(ask)
        proxy.strand()
        await ended(acme, [await enqueue(acme)])

        async def only_living_ones() -> bool:
            return proxy.stranded == 0

        await eventually(only_living_ones, what="the end of the dead connections")


async def test_a_connection_lost_while_the_store_is_opened_is_waited_for(
    acme: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    proxy.swallow(b".migrations")
    async with at_work(proxy.url, seen) as worker:
        async with asyncio.timeout(5):
            await worker.joined.wait()
        await ended(acme, [await enqueue(acme)])
    assert proxy.swallowed == 1

"""The listener: a connection that is lost, or through which nothing arrives, and the fallback meanwhile."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.conftest import eventually
from tests.lossy_proxies import through_a_pooler, without_notifications
from tests.proxy import Proxy
from tests.tenant_kit import ACME
from tests.worker.far_worker import Seen, asleep, at_work, began, ended, enqueue
from tests.worker.shop import Shop, WatchedStores, only

from leasehold.engines import engine_for
from leasehold.errors import CannotListen
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.model.status import Status
from leasehold.store import Store, Subscription, TenantJobs, Wake, WorkerFacts
from leasehold.worker import Job, Worker


@pytest.fixture
async def deaf_url(database_url: str) -> AsyncIterator[str]:
    """The way to the test's database on which notifications get lost."""
    async with without_notifications(database_url) as url:
        yield url


@pytest.fixture
async def pooled_url(database_url: str) -> AsyncIterator[str]:
    """The way through a real pgbouncer in transaction mode."""
    async with through_a_pooler(database_url) as url:
        yield url


async def test_a_worker_behind_a_pooler_in_transaction_mode_works_on(pooled_url: str, shop: Shop) -> None:
    async def report(job: Job, payload: object) -> None:
        job.log("said through the pooler")

    pooled = WatchedStores(pooled_url)
    async with shop.working(only(report), pooled, fallback=timedelta(milliseconds=100)):
        jobs = await shop.enqueue_many(50)
        assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}
    assert [line.text for line in await shop.lines(jobs[0])] == ["said through the pooler"]


async def test_producers_may_be_pooled(pooled_url: str, store: Store, shop: Shop) -> None:
    await store.sync_definitions([Definition("report")])
    pooled = await engine_for(pooled_url).open()
    try:
        acme = pooled.tenant(ACME)
        await asyncio.gather(*(acme.enqueue([NewJob(definition="report")]) for _ in range(40)))
        assert (await acme.counts(100))[Status.QUEUED] == 40
    finally:
        await pooled.close()


async def test_a_listener_finds_out_by_itself_that_nothing_arrives(deaf_url: str, store: Store) -> None:
    deaf = await engine_for(deaf_url).open()
    try:
        registration = await deaf.join(Subscription(("report",)), WorkerFacts("host", 1), timedelta(hours=1))
        with pytest.raises(CannotListen, match=r"LH-3002: .*no job is lost"):
            await anext(deaf.wakes(registration))
    finally:
        await deaf.close()


async def test_a_worker_that_can_not_listen_says_so_once_and_polls(
    deaf_url: str, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async def report(job: Job, payload: object) -> None: ...

    def said() -> list[str]:
        return [entry.getMessage() for entry in caplog.records if "LH-3002" in entry.getMessage()]

    async def said_so() -> bool:
        return bool(said())

    deaf = WatchedStores(deaf_url)
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        async with shop.working(only(report), deaf, fallback=timedelta(milliseconds=100)):
            for _ in range(3):
                assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
            await eventually(said_so, what="a word about it")
            assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    assert len(said()) == 1


async def test_a_worker_that_could_not_listen_tries_again(
    deaf_url: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def report(job: Job, payload: object) -> None: ...

    monkeypatch.setattr("leasehold.worker.listener.LISTEN_AGAIN", 0.05)
    mended = False

    def while_deaf(wakes: Callable[..., AsyncGenerator[Wake, None]]) -> Callable[..., AsyncGenerator[Wake, None]]:
        async def instead(*arguments: object) -> AsyncGenerator[Wake, None]:
            if not mended:
                raise CannotListen("nothing arrives.", fix="")
            async for wake in wakes(*arguments):
                yield wake

        return instead

    shop.stores.step_in("wakes", while_deaf)
    async with shop.working(only(report), fallback=timedelta(milliseconds=100)) as worker:
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
        assert not worker.state().listens
        mended = True
        await shop.at_rest(worker)
        await eventually(partial(_listens, worker), what="a worker that listens")


async def _listens(worker: Worker) -> bool:
    return worker.state().listens


END_LISTENERS = """
    select count(pg_terminate_backend(l.pid, 5000)) from pg_locks l join leasehold.workers w on true
    where l.locktype = 'advisory' and l.granted
      and (l.classid::bigint << 32 | l.objid::bigint) = leasehold.listener_key(w.id)
"""


async def test_jobs_enqueued_without_a_listener_are_found_later(
    acme: TenantJobs, database_url: str, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(database_url, seen):
        for _ in range(5):
            await asleep(ask)
            assert await ask(END_LISTENERS) == 1
            await ended(acme, [await enqueue(acme)])


async def test_the_loss_of_a_listener_is_logged(
    acme: TenantJobs,
    database_url: str,
    seen: Seen,
    ask: Callable[..., Awaitable[Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said() -> list[str]:
        return [text for entry in caplog.records if "the listener of" in (text := entry.getMessage())]

    async def is_back() -> bool:
        return bool(said())

    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(database_url, seen):
            await asleep(ask)
            assert said() == []
            await ask(END_LISTENERS)
            await eventually(is_back, what="a listener that has a connection again")
    (told,) = said()
    assert "lost its connection, and has a connection again" in told


async def test_jobs_enqueued_without_a_network_are_found_later(
    acme: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(proxy.url, seen) as worker:
        await asleep(ask)
        proxy.refuse()
        job = await enqueue(acme)
        await asyncio.sleep(0.5)
        assert seen.started == []
        proxy.heal()
        (record,) = await ended(acme, [job])
        assert worker.joined.is_set()
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)


async def test_without_wakes_the_fallback_finds_what_there_is(
    acme: TenantJobs, database_url: str, seen: Seen
) -> None:
    async with at_work(database_url, seen, notify=False, fallback=timedelta(milliseconds=200)) as worker:
        await worker.joined.wait()
        for _ in range(3):
            await ended(acme, [await enqueue(acme)])


async def test_the_fallback_finds_what_no_wake_was_sent_for(
    acme: TenantJobs, database_url: str, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    await ask(
        """
        create or replace function leasehold.wake(definitions text[], tenants text[], dues timestamptz[])
        returns integer language sql as 'select 0'
        """
    )
    async with at_work(database_url, seen, fallback=timedelta(milliseconds=200)):
        await asleep(ask)
        await ended(acme, [await enqueue(acme)])


async def test_jobs_that_come_due_start_in_time_and_in_order(acme: TenantJobs, database_url: str, seen: Seen) -> None:
    """So far apart that on a busy machine, too, each is claimed before the next is due."""
    async with at_work(database_url, seen, grace=timedelta()) as worker:
        await worker.joined.wait()
        runs_on = await enqueue(acme, seconds=60)
        await began(seen, runs_on)
        due = [await enqueue(acme, delay=timedelta(seconds=seconds)) for seconds in (7, 1, 4)]
        others = []
        for _ in range(10):
            others.append(await enqueue(acme, seconds=0.3))
            await asyncio.sleep(0.1)
        records = await ended(acme, due)
        await ended(acme, others)
        assert runs_on not in seen.ended
    for record in records:
        assert record.started_at is not None
        late = record.started_at - record.scheduled_for
        assert timedelta() <= late < timedelta(seconds=3), f"{late} after its time"
    assert [job for job in seen.started if job in due] == [due[1], due[2], due[0]]

"""Outages: which errors are one, how a worker tells of it, and how it comes back."""

import asyncio
import logging
from datetime import timedelta
from time import monotonic

import pytest
from tests.conftest import PATIENCE, eventually
from tests.proxy import Proxy
from tests.worker.far_worker import Seen, at_work, began, ended, enqueue
from tests.worker.shop import SETTINGS, Shop, only

from leasehold.engines.postgres import locks
from leasehold.errors import Unreachable
from leasehold.model.status import Status
from leasehold.runtime.outage import Outage
from leasehold.store import TenantJobs
from leasehold.worker import Job, Worker


@pytest.fixture
def outage(caplog: pytest.LogCaptureFixture) -> Outage:
    caplog.set_level(logging.INFO, "leasehold.worker")
    return Outage()


def test_a_statement_that_is_too_slow_is_not_an_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    slow = Unreachable("no answer in time.", fix="Try again.")
    slow.too_slow = True
    for _ in range(2):
        outage.loop_waits("upkeep", slow)
        outage.end(monotonic())
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert all(message.startswith("upkeep waits") for message in caplog.messages)


def test_a_connection_that_was_lost_before_is_not_an_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    """The claims of an idle worker meet their dead connection only after the outage: it was told twice."""
    lost = Unreachable("a connection was lost.", fix="Try again.")
    lost.lost_before = True
    outage.loop_waits("claims", lost)
    assert (outage.is_on, caplog.messages) == (False, [])


def test_a_database_that_can_not_be_reached_is_an_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    away = Unreachable("no connection.", fix="Check it.")
    for name in ("upkeep", "claims"):
        outage.loop_waits(name, away)
    outage.end(monotonic())
    outage.end(monotonic())
    assert [message.partition(",")[0].partition(" after")[0] for message in caplog.messages] == [
        "the database is away",
        "the database is back",
    ]


def test_an_answer_from_before_an_outage_does_not_end_it(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    """A finish was answered, the claim loop met the broken connection, and only then the finisher read its answer."""
    asked = monotonic()
    outage.begin(Unreachable("no connection.", fix="Check it."))
    outage.end(asked)
    (message,) = caplog.messages
    assert message.startswith("the database is away")


async def test_a_worker_that_waits_for_a_lock_names_its_holder(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its definition is new. The database is there, so the log must not say that it is away."""

    async def report(job: Job, payload: object) -> None: ...

    monkeypatch.setattr(locks, "LONGEST_WAIT", "50ms")
    await shop.observer.execute("select pg_advisory_lock(hashtextextended('leasehold:definitions', 0))")
    worker = Worker(shop.stores, only(report), SETTINGS)
    running = asyncio.create_task(worker.run())

    async def told() -> bool:
        return "LH-3005" in caplog.text

    await eventually(told, what="word of the lock")
    await shop.observer.execute("select pg_advisory_unlock_all()")
    await asyncio.wait_for(worker.joined.wait(), PATIENCE.total_seconds())
    worker.stop()
    await running
    (said,) = [message for message in caplog.messages if "LH-3005" in message]
    assert said.startswith("the database is there, but a lock is held, the worker waits for it: LH-3005")
    assert f"pid {shop.observer.get_server_pid()} (test, " in said


async def test_a_worker_waits_for_a_database_that_is_not_there_yet(
    acme: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    job = await enqueue(acme)
    proxy.refuse()
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(proxy.url, seen):
            await asyncio.sleep(3)
            tries = proxy.accepted
            said = [record for record in caplog.records if record.levelno >= logging.WARNING]
            proxy.heal()
            (record,) = await ended(acme, [job])
    assert record.status is Status.SUCCEEDED
    assert 2 <= tries <= 12, f"{tries} connections tried in 3 s"
    assert len(said) == 1, [record.getMessage() for record in said]
    assert "the database is away" in said[0].getMessage()


async def test_each_outage_is_told_and_begins_with_short_pauses(
    acme: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the second one, after a session that ended by a lost registration."""
    proxy.refuse()
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        async with at_work(proxy.url, seen, lease=timedelta(seconds=1)) as worker:
            await asyncio.sleep(0.5)
            proxy.heal()
            await worker.joined.wait()
            await ended(acme, [await enqueue(acme)])
            proxy.refuse()

            async def told_twice() -> bool:
                return caplog.text.count("the database is away") == 2

            await eventually(told_twice, what="a second message")
            proxy.heal()
            await ended(acme, [await enqueue(acme)])


async def test_a_lost_database_is_told_once_and_so_is_its_return(
    acme: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """Claims, finishes, listener and heartbeats each try again, and each of their tries was a line."""
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(proxy.url, seen):
            job = await enqueue(acme, seconds=0.5)
            await began(seen, job)
            proxy.refuse()
            before = proxy.accepted

            async def many_tries() -> bool:
                return proxy.accepted - before >= 10

            await eventually(many_tries, what="ten tries to reach the database")
            proxy.heal()
            await ended(acme, [job])

            async def is_back() -> bool:
                return "the database is back" in caplog.text

            await eventually(is_back, what="word of its return")
    away, back = (message for message in caplog.messages if "database" in message)
    assert away.startswith("the database is away, the worker waits for it: LH-3001")
    assert back.startswith("the database is back after ")


async def test_reconnecting_is_not_a_storm(acme: TenantJobs, proxy: Proxy, seen: Seen) -> None:
    """Claims, finishes, listener, voice and heartbeats all try again: together fewer than 20 times a second."""
    async with at_work(proxy.url, seen):
        job = await enqueue(acme, seconds=0.5)
        await began(seen, job)
        proxy.refuse()
        before = proxy.accepted
        await asyncio.sleep(3)
        tries = proxy.accepted - before
        proxy.heal()
        (record,) = await ended(acme, [job])
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)
    assert 5 <= tries <= 60, f"{tries} connections tried in 3 s"

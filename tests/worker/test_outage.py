"""Which errors are an outage of the database, and which are the matter of one statement."""

import asyncio
import logging
from time import monotonic

import pytest
from tests.conftest import PATIENCE, eventually
from tests.worker.shop import SETTINGS, Shop, only

from leasehold.engines.postgres import locks
from leasehold.errors import Unreachable
from leasehold.worker import Job, Worker
from leasehold.worker.outage import Outage


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
    worker = Worker(shop.doors, only(report), SETTINGS)
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

"""Wakes, polls, outages and lost listeners that really happen, on each engine, beside the metrics of them."""

from collections import Counter
from datetime import timedelta
from math import inf
from time import monotonic

import pytest
from tests.both_engines.watched_stores import CountingStores
from tests.conftest import eventually
from tests.lossy_proxies import without_notifications
from tests.proxy import Proxy
from tests.telemetry.samples import Samples, samples_of
from tests.tenant_kit import HOUR
from tests.worker.shop import Payload, Workplace, only, session_of

from leasehold import engine
from leasehold.engines import engine_for
from leasehold.telemetry.metrics import Metrics
from leasehold.worker import Handlers, Job, Worker
from leasehold.worker.heartbeat import Leases

OFTEN = timedelta(milliseconds=100)
# The worker believes in its lease for as long as a test runs.
LONG = Leases(busy=HOUR, idle=HOUR)
# The worker gives up a heartbeat after two seconds, and reports that the database is away.
SHORT = Leases(busy=timedelta(seconds=6), idle=timedelta(seconds=6))


def handlers() -> Handlers:
    async def report(job: Job, payload: Payload) -> None: ...

    return only(report)


async def until_at_rest(worker: Worker) -> None:
    """Returns when the worker has nothing to do; if it listens, it has heard the first wake of its connection."""

    async def is_at_rest() -> bool:
        state = worker.state()
        return state.at_rest and (not state.listens or state.heard_at > -inf)

    await eventually(is_at_rest, what="the rest of the worker")


def seen_of(metrics: Metrics, worker: Worker) -> Samples:
    return samples_of(metrics, state=worker.process_state())


async def test_wakes_and_looks_are_counted(shop: Workplace, kit: engine.TestKit) -> None:
    """Heartbeats are silent meanwhile: their answers make a worker look, too."""
    metrics, stores = Metrics(), CountingStores(kit)
    async with shop.working(handlers(), stores, observe=metrics, leases=LONG) as worker:
        await until_at_rest(worker)
        await stores.fall_silent()
        try:
            for _ in range(3):
                await shop.ended(await shop.enqueue())
                await until_at_rest(worker)
            seen, sent, looks = seen_of(metrics, worker), Counter(stores.wakes), stores.looks
        finally:
            stores.speak()
    channels = seen.values_of("channel", "job_notification_received_total")
    assert {each: seen.total("job_notification_received_total", channel=each) for each in channels} == sent
    assert sent["work"] > 3
    assert seen.total("leasehold_polls_total") == looks
    assert seen.total("job_claimed_total") == 3
    assert seen.total("job_poll_scanned_total") == 0
    assert seen.total("leasehold_worker_listens") == 1
    assert seen.total("leasehold_listener_lost_total") == 0


async def test_jobs_that_a_poll_has_found_are_counted(shop: Workplace, kit: engine.TestKit) -> None:
    """Heartbeats are silent meanwhile: one that sees a waiting job makes the worker look before the next poll."""
    metrics, stores = Metrics(), CountingStores(kit)
    async with shop.working(handlers(), stores, observe=metrics, notify=False, fallback=OFTEN, leases=LONG) as worker:
        await until_at_rest(worker)
        await stores.fall_silent()
        try:
            for _ in range(3):
                await shop.ended(await shop.enqueue())
                await until_at_rest(worker)
            seen = seen_of(metrics, worker)
        finally:
            stores.speak()
    assert seen.total("job_poll_scanned_total") == 3
    assert seen.total("job_claimed_total") == 3
    assert seen.total("job_notification_received_total") == 0
    assert seen.total("leasehold_polls_total", reason="start") == 1
    assert seen.total("leasehold_polls_total", reason="wake") == 0
    assert seen.total("leasehold_worker_listens") == 0


async def test_an_outage_is_counted_with_its_seconds(shop: Workplace, proxy: Proxy) -> None:
    """The outage begins after the proxy refuses and before it is seen; it ends after the repair in the same way."""
    metrics = Metrics()

    def outages() -> float:
        return samples_of(metrics).total("leasehold_database_outages_total")

    def seconds() -> float:
        return samples_of(metrics).total("leasehold_database_outage_seconds_total")

    async def is_away() -> bool:
        return outages() > 0

    async def is_back() -> bool:
        return seconds() > 0

    async with shop.working(handlers(), engine_for(proxy.url).open, observe=metrics, leases=SHORT) as worker:
        await until_at_rest(worker)
        assert (outages(), seconds()) == (0, 0)
        refused = monotonic()
        proxy.refuse()
        await eventually(is_away, what="the beginning of the outage in the metrics")
        seen = monotonic()
        assert (outages(), seconds()) == (1, 0)
        healed = monotonic()
        proxy.heal()
        await eventually(is_back, what="the end of the outage in the metrics")
        back = monotonic()
        await shop.ended(await shop.enqueue())
    assert outages() == 1
    assert healed - seen <= seconds() <= back - refused


@pytest.mark.abilities("wakes")
async def test_a_listener_that_is_lost_is_counted(
    shop: Workplace, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is dead without an error, so that the notification of a heartbeat does not come back."""
    monkeypatch.setattr("leasehold.worker.listener.PROBE_LIMIT", 0.5)
    metrics = Metrics()
    async with shop.working(handlers(), engine_for(proxy.url).open, observe=metrics, leases=LONG) as worker:
        await until_at_rest(worker)
        assert proxy.strand(having_sent=b"LISTEN") == 1

        async def is_lost() -> bool:
            session_of(worker).heartbeat.hurry()  # the notification of an earlier one may be heard after it was sent
            return seen_of(metrics, worker).total("leasehold_listener_lost_total") == 1

        async def is_back() -> bool:
            return seen_of(metrics, worker).total("leasehold_worker_listens") == 1

        await eventually(is_lost, what="a listener that is lost")
        await eventually(is_back, what="a listener that is back")
        await shop.ended(await shop.enqueue())
    assert samples_of(metrics).total("leasehold_listener_lost_total") == 1


@pytest.mark.abilities("wakes")
async def test_a_worker_that_hears_nothing_is_counted(
    shop: Workplace, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.engines.postgres.listen.PROBE_LIMIT", 0.2)
    metrics = Metrics()
    async with (
        without_notifications(database_url) as url,
        shop.working(handlers(), engine_for(url).open, observe=metrics, fallback=OFTEN) as worker,
    ):

        async def is_deaf() -> bool:
            return not worker.state().listens

        await eventually(is_deaf, what="a worker that does not listen any more")
        await until_at_rest(worker)
        await shop.ended(await shop.enqueue())
        seen = seen_of(metrics, worker)
    assert seen.total("leasehold_listener_lost_total") == 1
    assert seen.total("leasehold_worker_listens") == 0
    assert seen.total("job_poll_scanned_total") == 1

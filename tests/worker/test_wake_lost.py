"""Wakes that reach a worker which can't act on them: others notice, by a heartbeat or a second after the due time.

The fallback is an hour away: only what is to be shown can have woken a worker.
"""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from time import monotonic
from unittest import mock

import pytest
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.store.wake_listener import asleep, fall_asleep
from tests.tenant_kit import ACME, HOUR
from tests.worker.shop import Processes, Shop, WatchedStores, only, session_of

from leasehold.model.limits import Pause, Scope, ScopeKind
from leasehold.model.status import Status
from leasehold.store import Registration, Renewal, Subscription, Wake, WorkerFacts
from leasehold.telemetry import Event, WorkerListening
from leasehold.worker import Handlers, Job, Worker
from leasehold.worker.heartbeat import Leases

SECOND = timedelta(seconds=1)
# A heartbeat each second.
QUICK = Leases(busy=3 * SECOND, idle=3 * SECOND)
# None but the first, for a long time.
SLOW = Leases(busy=HOUR, idle=HOUR)


async def report(job: Job, payload: object) -> None: ...


@pytest.fixture
async def handlers(shop: Shop) -> Handlers:
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    return handlers


@pytest.fixture
async def still(shop: Shop, handlers: Handlers) -> Registration:
    """A worker that stands still: it listens and sleeps, and does nothing when it is woken."""
    return await shop.store.join(Subscription(("report",)), WorkerFacts("still", 1), HOUR)


# A worker that stopped while asleep


async def test_another_worker_takes_what_a_stopped_sleeper_was_woken_for(
    shop: Shop, handlers: Handlers, still: Registration
) -> None:
    async with asleep(shop.store, still) as ears, shop.working(handlers, leases=QUICK) as worker:
        await shop.at_rest(worker)
        job = await shop.enqueue()
        assert await ears.next() is Wake.WORK
        assert (await shop.ended(job)).status is Status.SUCCEEDED


@pytest.mark.parametrize("scope", [Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, "report")])
async def test_held_work_costs_an_idle_worker_only_its_heartbeat(
    shop: Shop, handlers: Handlers, scope: Scope
) -> None:
    await shop.store.pause(scope, Pause("maintenance"))
    await shop.enqueue_many(3)
    await shop.enqueue(delay=SECOND / 10)
    async with shop.working(handlers, leases=QUICK) as worker:
        await shop.at_rest(worker)
        await _beats(shop, 2)  # a job that comes due is promoted once
        sent = await _beats(shop, 3)
    assert sent.keys() == {"fleet/renew"}


async def test_an_idle_worker_with_a_job_for_tomorrow_only_beats(shop: Shop, handlers: Handlers) -> None:
    await shop.enqueue(delay=24 * HOUR)
    async with shop.working(handlers, leases=QUICK) as worker:
        await shop.at_rest(worker)
        await _beats(shop, 2)  # a heartbeat while the worker went to sleep makes it look once more
        sent = await _beats(shop, 3)
    assert sent.keys() == {"fleet/renew"}


# A worker that died, and was the only one to know when a job is due


async def test_a_deputy_runs_a_job_whose_timer_has_died(shop: Shop, handlers: Handlers, still: Registration) -> None:
    """It was enqueued while all slept: one sleeper was woken for it, and does not come back."""
    async with asleep(shop.store, still) as ears, shop.working(handlers, leases=SLOW) as worker:
        await shop.at_rest(worker)
        job = await shop.enqueue(delay=SECOND)
        assert await ears.next() is Wake.WORK
        assert (await shop.ended(job)).status is Status.SUCCEEDED


async def test_a_deputy_knows_a_job_between_two_others(shop: Shop, handlers: Handlers, still: Registration) -> None:
    """Its producer woke no sleeper: each wakes by itself before it is due."""
    first = await shop.enqueue(delay=SECOND)
    async with asleep(shop.store, still), shop.working(handlers, leases=SLOW) as worker:
        await shop.at_rest(worker)
        await shop.enqueue(delay=HOUR)
        between = await shop.enqueue(delay=2 * SECOND)
        assert {record.status for record in await shop.all_ended([first, between])} == {Status.SUCCEEDED}


async def test_a_heartbeat_tells_a_deputy_of_due_times(shop: Shop, handlers: Handlers, still: Registration) -> None:
    """The announcement was lost; the job is due after the next heartbeat."""
    async with asleep(shop.store, still) as ears, shop.working(handlers, leases=QUICK) as worker:
        await shop.at_rest(worker)
        session_of(worker).listener.hear = lambda wake: None  # type: ignore[method-assign]
        job = await shop.enqueue(delay=2 * SECOND)
        assert await ears.next() is Wake.WORK
        assert (await shop.ended(job)).status is Status.SUCCEEDED


async def test_due_times_are_announced_by_definition(shop: Shop, handlers: Handlers, still: Registration) -> None:
    async with asleep(shop.store, still) as ears:
        await shop.enqueue(delay=HOUR)
        assert await ears.next() is Wake.WORK
        await fall_asleep(shop.store, still)
        await shop.enqueue(delay=2 * HOUR)  # each sleeper wakes by itself before that
        await shop.enqueue()
        assert await ears.next() is Wake.WORK
    assert [(due.definition, due.wait > HOUR - SECOND) for due in ears.due] == [("report", True)]


async def test_a_due_time_of_another_definition_costs_nothing(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers, leases=SLOW) as worker:
        await shop.at_rest(worker)
        before = worker.state().heard_at
        await shop.observer.execute("select pg_notify(leasehold.channel_for_all(), 'due 0.5 email')")
        await eventually(lambda: _heard_since(worker, before), what="the announcement")
        assert not worker.state().deputy_is_set


# A listener that is silently dead


async def test_a_dead_listener_is_noticed_and_replaced(
    shop: Shop, proxy: Proxy, handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("leasehold.worker.listener.PROBE_LIMIT", 0.5)
    seen: list[bool] = []

    def observe(event: Event) -> None:
        if isinstance(event, WorkerListening):
            seen.append(event.listens)

    stores = WatchedStores(proxy.url)
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with shop.working(handlers, stores, observe=observe, leases=QUICK) as worker:
            await shop.at_rest(worker)
            assert proxy.strand(having_sent=b"LISTEN") == 1

            async def is_back() -> bool:
                return seen == [False, True]

            await eventually(is_back, what="a listener that is lost and comes back")
            assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED
    said = [entry.getMessage() for entry in caplog.records if "the listener is" in entry.getMessage()]
    assert [text.split(":")[0] for text in said] == ["the listener is lost", "the listener is back"]


async def test_a_dead_listener_delays_a_job_by_one_heartbeat_at_most(
    shop: Shop, proxy: Proxy, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat itself finds the ready job. The verdict on its probe, which comes later here, is not needed."""
    monkeypatch.setattr("leasehold.worker.listener.PROBE_LIMIT", HOUR.total_seconds())
    async with shop.working(handlers, WatchedStores(proxy.url), leases=QUICK) as worker:
        await shop.at_rest(worker)
        assert proxy.strand(having_sent=b"LISTEN") == 1
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


async def test_the_verdict_on_a_probe_comes_before_the_next_heartbeat(shop: Shop, handlers: Handlers) -> None:
    """Holds for a worker with the default leases, idle or busy."""
    async with shop.working(handlers, leases=SLOW) as worker:
        await shop.at_rest(worker)
        session, timers = session_of(worker), list[tuple[float, Callable[[], None]]]()

        def call_later(delay: float, call: Callable[..., None], *arguments: object) -> None:
            timers.append((delay, partial(call, *arguments)))

        with mock.patch.object(session.calls.loop, "call_later", call_later):
            # Nothing that is heard came later than this.
            session.on_renewal(Renewal(True, frozenset(), frozenset(), False, False, None), sent=float("inf"))
            for _, call in timers:
                call()
        assert not worker.state().listens
    beats = Leases()
    assert sum(delay for delay, _ in timers) < min(beats.busy, beats.idle).total_seconds() / 3


async def test_a_worker_that_polls_sends_no_probe(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers, notify=False, leases=QUICK) as worker:
        heard: asyncio.Queue[str] = asyncio.Queue()
        channel = await shop.observer.fetchval("select leasehold.channel($1::uuid)", worker.state().worker)
        await shop.observer.add_listener(channel, lambda *word: heard.put_nowait(str(word[-1])))
        await _beats(shop, 2)
        await shop.observer.execute("select pg_notify($1, 'last')", channel)
        assert await asyncio.wait_for(heard.get(), 30) == "last"


async def test_a_listener_that_hears_is_left_alone(shop: Shop, handlers: Handlers) -> None:
    seen: list[Event] = []
    async with shop.working(handlers, observe=seen.append, leases=QUICK) as worker:
        await shop.at_rest(worker)
        began = monotonic()
        await _beats(shop, 2)
        await eventually(lambda: _heard_since(worker, began), what="a heartbeat that comes back")
    assert not [event for event in seen if isinstance(event, WorkerListening)]


async def _beats(shop: Shop, count: int) -> Counter[str]:
    """The statements of a worker's next heartbeats, without its roll-up, which may come in any second of a minute."""
    shop.stores.statements.clear()

    async def enough() -> bool:
        return shop.stores.statements.count("fleet/renew") >= count

    await eventually(enough, what=f"{count} heartbeats")
    return Counter(name for name in shop.stores.statements if name != "fleet/roll_up")


async def _heard_since(worker: Worker, moment: float) -> bool:
    return worker.state().heard_at > moment


@pytest.mark.faults
async def test_a_job_outlives_the_worker_that_was_woken_for_it(shop: Shop, processes: Processes) -> None:
    for _ in range(2):
        processes.worker("--lease", "1h", LEASEHOLD_FALLBACK="1h")
    everybody = "select count(*) from leasehold.sleepers where wakes_at is null and leasehold.listens(worker_id)"

    async def all_asleep() -> bool:
        return bool(await shop.observer.fetchval(everybody) == 2)

    await eventually(all_asleep, what="two sleeping workers")
    await shop.enqueue("note", payload=processes.payload, delay=timedelta(seconds=8))
    woken = """
        select w.pid from leasehold.sleepers s join leasehold.workers w on w.id = s.worker_id
        where s.wakes_at is not null
    """

    async def one_has_the_timer() -> bool:
        return await shop.observer.fetchval(woken) is not None

    await eventually(one_has_the_timer, what="a worker that waits for the due time")
    holder = await shop.observer.fetchval(woken)
    os.kill(holder, signal.SIGKILL)
    (done,) = await processes.noted("did")
    assert done.pid != holder

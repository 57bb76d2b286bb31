"""The test plan of seed 002, "Long Polling Design", number by number.

Where it measures milliseconds, these tests show the mechanism instead: the fallback is an hour away, so that only
what is to be shown can have woken anybody.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from tests.conftest import PATIENCE, Clock, Raw, eventually
from tests.postgres_parts import engine_on
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, SECOND
from tests.worker.shop import Shop, Verb, WatchedStores, only
from tests.worker.sources_of_work import SOURCES, Source

from leasehold.model.backoff import Steps
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.status import Status
from leasehold.worker import Handlers, Job, Worker
from leasehold.worker.heartbeat import Leases
from leasehold.worker.settings import SHORTEST_FALLBACK
from leasehold.worker.wake import WakeChain


async def report(job: Job, payload: dict[str, Any]) -> str:
    return "done"


@pytest.fixture
async def handlers(shop: Shop) -> Handlers:
    handlers = only(report, backoff=Steps(0))
    await shop.store.sync_definitions(handlers.definitions)
    return handlers


@pytest.fixture
def bench(shop: Shop, clock: Clock) -> Bench:
    """Another worker of the same tenant, in steps."""
    return Bench(engine_on(shop.store, shop.url, clock))


# 1. Trigger creation


@pytest.mark.parametrize("source", SOURCES)
async def test_1_every_source_of_work_wakes_a_worker_that_sleeps(
    shop: Shop, bench: Bench, handlers: Handlers, source: Source
) -> None:
    making = source(bench)
    await anext(making)
    async with shop.working(handlers, tenants=(ACME,)) as worker:
        await shop.at_rest(worker)
        job = await anext(making)
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    await making.aclose()


# 2. and 3. The notification


@asynccontextmanager
async def overheard(observer: Raw, worker: Worker) -> AsyncIterator[list[str]]:
    """The payloads of what is sent to this worker."""
    heard: list[str] = []

    def on_notify(connection: object, pid: int, channel: str, payload: object) -> None:
        heard.append(str(payload))

    channel = await observer.fetchval("select leasehold.channel($1::uuid)", worker.state().worker)
    await observer.add_listener(channel, on_notify)
    yield heard
    await observer.remove_listener(channel, on_notify)


async def test_2_an_enqueue_notifies_the_worker_that_sleeps(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        async with overheard(shop.observer, worker) as heard:
            await shop.ended(await shop.enqueue())

            async def arrived() -> bool:
                return bool(heard)

            await eventually(arrived, what="the notification")


async def test_3_a_notification_carries_no_data(shop: Shop, handlers: Handlers) -> None:
    """Neither a job nor a time: `work` says "look", and when the next job is due the worker reads for itself."""
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        async with overheard(shop.observer, worker) as heard:
            await shop.enqueue(delay=HOUR)

            async def arrived() -> bool:
                return bool(heard)

            await eventually(arrived, what="the notification")
            await shop.at_rest(worker)
            await shop.ended(await shop.enqueue(payload={"secret": "1234"}))
        assert set(heard) - {"heartbeat"} == {"work"}  # its own heartbeats probe the listener


# 4. to 8. Waking


async def test_4_immediate_wake_by_the_notification_and_not_by_a_timer(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers) as worker:
        for _ in range(3):
            await shop.at_rest(worker)
            assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


async def test_5_timer_wake_of_a_worker_that_hears_no_notification(shop: Shop, handlers: Handlers) -> None:
    """It does not listen, and the fallback is an hour away: the timer alone can have woken it."""
    job = await shop.enqueue(delay=SECOND)
    async with shop.working(handlers, notify=False):
        record = await shop.ended(job)
    assert record.started_at is not None
    assert record.started_at >= record.scheduled_for


async def test_6_competing_consumers_one_of_four_claims_one_item(shop: Shop, handlers: Handlers) -> None:
    """The one that found work wakes one more, which finds nothing and wakes nobody: two of four look."""
    looked: set[str] = set()
    found: list[JobId] = []

    def watched(claim: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            looked.add(str(id(asyncio.current_task())))
            claimed = await claim(*arguments)
            found.extend(each.job for each in claimed.claims)
            return claimed

        return verb

    shop.stores.step_in("claim", watched)
    async with shop.working(handlers, dispatchers=4) as worker:
        await shop.at_rest(worker)
        assert len(looked) == 4
        looked.clear()
        job = await shop.enqueue()

        # Only read: who waits for a result marks the job's row, and a claim that meets it then passes over it.
        async def has_succeeded() -> bool:
            return (await shop.job(job)).status is Status.SUCCEEDED

        await eventually(has_succeeded, what="the job's success")
        await shop.at_rest(worker)
    assert found == [job]
    assert len(looked) == 2


async def test_6_a_burst_passes_few_tokens_on(
    shop: Shop, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens go from a dispatcher that was woken to the next, and none from a tight loop of sixty claims."""
    found = passed = 0
    pass_on = WakeChain.pass_on

    def counted(chain: WakeChain) -> None:
        nonlocal passed
        passed += 1
        pass_on(chain)

    def one_by_one(claim: Verb) -> Verb:
        async def verb(registration: Any, limit: int = 1) -> Any:
            nonlocal found
            claimed = await claim(registration, 1)
            found += len(claimed.claims)
            return claimed

        return verb

    monkeypatch.setattr(WakeChain, "pass_on", counted)
    for verb in ("claim", "prepare_to_sleep"):
        shop.stores.step_in(verb, one_by_one)
    async with shop.working(handlers, dispatchers=4) as worker:
        await shop.at_rest(worker)
        await shop.all_ended(await shop.enqueue_many(60))
        await shop.at_rest(worker)
    assert found >= 60
    assert 1 <= passed <= found / 4


async def test_7_fallback_wakes_a_worker_that_does_not_listen(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers, notify=False, fallback=timedelta(seconds=0.3)) as worker:
        await shop.at_rest(worker)
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


@pytest.mark.parametrize(("notify", "seconds"), [(True, 60), (False, 2)], ids=["with wakes", "without"])
async def test_7_fallback_is_a_minute_with_wakes_and_two_seconds_without(
    shop: Shop, handlers: Handlers, notify: bool, seconds: int
) -> None:
    async with shop.working(handlers, notify=notify, fallback=None) as worker:
        await shop.at_rest(worker)
        assert worker.state().fallback == timedelta(seconds=seconds)


async def test_8_the_timer_is_set_to_what_the_store_answered(
    shop: Shop, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[timedelta | None] = []
    armed: list[timedelta | None] = []
    arm = WakeChain.arm

    def noted(chain: WakeChain, next_due: timedelta | None) -> None:
        armed.append(next_due)
        arm(chain, next_due)

    def heard(settle: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            claimed = await settle(*arguments)
            answers.append(claimed.next_due)
            return claimed

        return verb

    monkeypatch.setattr(WakeChain, "arm", noted)
    shop.stores.step_in("prepare_to_sleep", heard)
    await shop.enqueue(delay=HOUR)
    async with shop.working(handlers, fallback=2 * HOUR) as worker:
        await shop.at_rest(worker)
    assert armed[-1] == answers[-1]
    assert answers[-1] is not None


async def test_8_timer_update_by_an_earlier_timer(shop: Shop, handlers: Handlers) -> None:
    later = await shop.enqueue(delay=HOUR)
    async with shop.working(handlers, fallback=2 * HOUR) as worker:
        await shop.at_rest(worker)
        record = await shop.ended(await shop.enqueue(delay=SECOND))
        assert (await shop.job(later)).status is Status.QUEUED
    assert record.started_at is not None
    assert record.started_at >= record.scheduled_for


# 9. and 10. Load


async def test_9_throughput_takes_a_small_part_of_a_statement_per_job(shop: Shop, handlers: Handlers) -> None:
    """Short polling takes two statements for each job, a claim and a finish. Statements are counted, not seconds."""
    jobs = await shop.enqueue_many(1000)
    async with shop.working(handlers, slots=50, dispatchers=4):
        await shop.all_ended(jobs)
    sent = Counter(shop.stores.statements)
    assert sent.total() / len(jobs) < 0.5, sent


async def test_10_wakes_take_a_tenth_of_the_statements_of_polling(shop: Shop, handlers: Handlers) -> None:
    """Two workers side by side, each for its own tenant: one is woken, one polls as often as it may."""
    polled, poller = tenant_id("other"), WatchedStores(shop.url)
    async with (
        shop.working(handlers, tenants=(ACME,)) as woken,
        shop.working(handlers, poller, tenants=(polled,), notify=False, fallback=SHORTEST_FALLBACK) as polling,
    ):
        await shop.at_rest(woken)
        await shop.at_rest(polling)
        for stores in (shop.stores, poller):
            stores.statements.clear()

        async def hundred_looks() -> bool:
            return len(poller.statements) >= 100

        await eventually(hundred_looks, what="a hundred looks by polling")
        assert len(shop.stores.statements) <= len(poller.statements) / 10, Counter(shop.stores.statements)
        for tenant in (ACME, polled):
            acme = shop.store.tenant(tenant)
            for _ in range(3):
                (placed,) = await acme.enqueue([NewJob(definition="report")])
                ended = await acme.wait_until_final(placed.id, PATIENCE)
                assert ended is not None
        assert len(shop.stores.statements) < len(poller.statements) / 2, Counter(shop.stores.statements)


async def test_10_idle_load_is_one_look_per_fallback_and_the_heartbeat(shop: Shop, handlers: Handlers) -> None:
    """All intervals are a sixtieth of the defaults: a heartbeat and a look each second stand for two statements a
    minute, 0.033/s, where the seed expects 0.067 and short polling sends 160.
    """
    idle = Leases(busy=timedelta(seconds=3), idle=timedelta(seconds=3))
    async with shop.working(handlers, dispatchers=4, fallback=SECOND, leases=idle) as worker:
        await shop.at_rest(worker)
        shop.stores.statements.clear()
        began = monotonic()

        async def three_beats() -> bool:
            return shop.stores.statements.count("fleet/renew") >= 3

        await eventually(three_beats, what="three heartbeats")
        sent = Counter(shop.stores.statements)
        seconds = monotonic() - began
    assert sent.keys() <= {"fleet/renew", "fleet/claim_few", "fleet/roll_up"}
    assert sent["fleet/roll_up"] <= 1, "once a minute"
    assert sent["fleet/renew"] <= seconds + 1
    assert sent["fleet/claim_few"] <= seconds + 1

"""The verification strategy of seed 000, "Job Dispatch Redesign"."""

from collections import Counter
from datetime import timedelta

import asyncpg
import pytest
from tests.conftest import Clock, Raw, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import SHORT, Payload, Shop, only

from leasehold.engines import engine_for
from leasehold.model.backoff import OUTBOX, Steps
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Subscription, WorkerFacts
from leasehold.worker import Handlers, Job

CRASHED, FAILED, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.FAILED, AttemptStatus.SUCCEEDED
LEASE = timedelta(seconds=60)
REPORTS = Subscription(("report",), (ACME,))
NOBODY = WorkerFacts("elsewhere", 1)


async def report(job: Job, payload: Payload) -> None: ...


@pytest.fixture
async def handlers(shop: Shop) -> Handlers:
    handlers = only(report, backoff=Steps(0))
    await shop.store.sync_definitions(handlers.definitions)
    return handlers


# Unit tests


async def test_notify_payload_is_a_poke_and_not_data(shop: Shop, handlers: Handlers) -> None:
    heard: list[tuple[str, str]] = []

    def on_notify(connection: object, pid: int, channel: str, payload: object) -> None:
        heard.append((channel, str(payload)))

    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        channel = await shop.observer.fetchval("select leasehold.channel($1::uuid)", worker.state().worker)
        await shop.observer.add_listener(channel, on_notify)
        await shop.ended(await shop.enqueue(payload={"item": 7}))

        async def arrived() -> bool:
            return (channel, "work") in heard

        await eventually(arrived, what="the notification")
        await shop.observer.remove_listener(channel, on_notify)
    assert set(heard) <= {(channel, "work"), (channel, "heartbeat")}


def test_backoff_is_30_seconds_then_5_minutes_for_three_executions() -> None:
    delays = [OUTBOX.backoff.delay(execution, jitter=0.5).total_seconds() for execution in (1, 2)]
    assert (delays, OUTBOX.max_attempts) == ([30, 300], 3)


async def test_backoff_is_what_the_worker_writes(shop: Shop) -> None:
    async def enrich(job: Job, payload: Payload) -> None:
        raise ConnectionError("the model is away")

    handlers = only(enrich, backoff=OUTBOX.backoff, max_attempts=OUTBOX.max_attempts)
    async with shop.working(handlers):
        record = await shop.waits_again(await shop.enqueue())
    (attempt,) = await shop.jobs.attempts(record.id)
    assert attempt.finished_at is not None
    assert record.scheduled_for - attempt.finished_at == timedelta(seconds=30)


async def test_lease_expiry_is_judged_by_the_databases_clock(shop: Shop, handlers: Handlers, clock: Clock) -> None:
    job = await shop.enqueue()
    registration = await shop.store.join(REPORTS, NOBODY, LEASE)
    await shop.store.claim(registration, 1)
    await clock.move(LEASE - timedelta(seconds=30))
    assert not await shop.store.evict(10)
    await clock.move(timedelta(seconds=31))
    assert [orphan.job for orphan in await shop.store.evict(10)] == [job]


# Integration tests


async def test_1_happy_path(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.statuses(job) == [SUCCEEDED]


async def test_2_missed_notify(shop: Shop, handlers: Handlers) -> None:
    """The worker listens, but producers don't know that it sleeps: nobody is notified, the fallback finds the job."""
    async with shop.working(handlers, fallback=timedelta(seconds=2)) as worker:
        await shop.at_rest(worker)
        await shop.observer.execute("delete from leasehold.sleepers")
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


async def test_2_the_start_up_scan_finds_what_was_enqueued_before(shop: Shop, handlers: Handlers) -> None:
    jobs = await shop.enqueue_many(25)
    async with shop.working(handlers):
        assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}


async def test_3_concurrent_workers(shop: Shop) -> None:
    ran: Counter[JobId] = Counter()

    async def count(job: Job, payload: Payload) -> None:
        ran[job.id] += 1

    handlers = only(count)
    async with shop.working(handlers), shop.working(handlers):
        jobs = await shop.enqueue_many(200)
        await shop.all_ended(jobs)
    assert ran == dict.fromkeys(jobs, 1)


async def test_4_crash_recovery(shop: Shop, handlers: Handlers) -> None:
    """Claimed by a worker whose connections then end without a word; after its lease another takes over."""
    job = await shop.enqueue()
    elsewhere = await engine_for(shop.url).open()
    registration = await elsewhere.join(REPORTS, NOBODY, SHORT.busy)
    claimed = await elsewhere.claim(registration, 1)
    await elsewhere.close()
    async with shop.working(handlers, leases=SHORT):
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert await shop.statuses(job) == [CRASHED, SUCCEEDED]
    assert [claim.attempt for claim in claimed.claims] == [1]


@pytest.fixture
async def item(observer: Raw) -> str:
    """Something of the application's own, that a job enriches."""
    await observer.execute("create table items (id text primary key, status text, changes integer default 0)")
    await observer.execute("insert into items values ('item-1', 'enriching')")
    return "item-1"


async def test_5_idempotency(shop: Shop, item: str) -> None:
    """The first run dies between its effect and its result; the second finds the item done, and changes nothing."""
    found: list[str] = []

    async def enrich(job: Job, payload: Payload) -> None:
        connection = await asyncpg.connect(shop.url)
        try:
            found.append(await connection.fetchval("select status from items where id = $1", payload["item"]))
            await connection.execute(
                "update items set status = 'ready', changes = changes + 1 where id = $1 and status = 'enriching'",
                payload["item"],
            )
        finally:
            await connection.close()
        if job.attempt == 1:
            raise ConnectionResetError("before it could say that it was done")

    async with shop.working(only(enrich, backoff=Steps(0))):
        job = await shop.enqueue(payload={"item": item})
        await shop.ended(job)
    assert await shop.statuses(job) == [FAILED, SUCCEEDED]
    assert found == ["enriching", "ready"]
    assert await shop.observer.fetchval("select changes from items where id = $1", item) == 1


# End to end


async def test_100_items_created_rapidly_are_all_enriched(shop: Shop, handlers: Handlers) -> None:
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        jobs = [await shop.enqueue(payload={"item": number}) for number in range(100)]
        records = await shop.all_ended(jobs)
    assert Counter(record.status for record in records) == {Status.SUCCEEDED: 100}

"""The claim loop: which jobs it claims, how long it lingers, and when it wakes another worker."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import Payload, Shop, StepIn, Verb, WatchedStores, only

from leasehold.model.definition import Definition
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.status import Status
from leasehold.store import Claimed, Registration
from leasehold.worker import Handlers, Job, claim_loop


async def report(job: Job, payload: dict[str, Any]) -> None: ...


async def succeeds(shop: Shop, job: JobId) -> None:
    """Only read: who waits for a result marks the job's row, and a claim that meets it then passes over it."""

    async def has_succeeded() -> bool:
        return (await shop.job(job)).status is Status.SUCCEEDED

    await eventually(has_succeeded, what=f"the success of {job}")


async def test_a_job_that_comes_just_after_another_finds_the_worker_awake(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lingers for as long as the test wants it to, so that "just after" does not depend on time."""
    lingers, goes_on, sleep = asyncio.Event(), asyncio.Semaphore(0), asyncio.sleep

    async def until_told(seconds: float) -> None:
        if seconds == claim_loop.LINGER:
            lingers.set()
            await goes_on.acquire()
        else:
            await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", until_told)
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        await succeeds(shop, await shop.enqueue())
        await asyncio.wait_for(lingers.wait(), PATIENCE.total_seconds())
        shop.stores.statements.clear()
        second = await shop.enqueue()
        goes_on.release()
        await succeeds(shop, second)
        statements = list(shop.stores.statements)
    assert statements.count("fleet/claim_few") == 1
    assert statements.count("fleet/sleep") == 0


async def test_a_worker_that_lingered_in_vain_sleeps_and_is_woken(shop: Shop) -> None:
    """The fallback is an hour away, so that only a wake can bring the second job."""
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers, fallback=timedelta(hours=1)) as worker:
        await shop.ended(await shop.enqueue())
        await shop.at_rest(worker)
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED


async def test_a_worker_claims_only_what_it_has_registered(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    await shop.store.sync_definitions([Definition("report"), Definition("email")])
    email = await shop.enqueue("email", priority=1)
    async with shop.working(only(report)) as worker:
        await shop.all_ended(await shop.enqueue_many(5))
        await shop.at_rest(worker)
    assert (await shop.job(email)).status is Status.QUEUED
    assert await shop.statuses(email) == []


async def test_urgent_jobs_of_a_claim_begin_first_in_any_tenant(shop: Shop) -> None:
    began: list[str] = []

    async def report(job: Job, payload: Payload) -> None:
        began.append(job.tenant)

    await shop.store.sync_definitions([Definition("report")])
    jobs = await shop.enqueue_many(3)
    await shop.store.tenant(tenant_id("urgent")).enqueue([NewJob(definition="report", priority=1)] * 3)
    async with shop.working(only(report), slots=6):
        await shop.all_ended(jobs)
    assert began == ["urgent"] * 3 + [ACME] * 3


async def test_a_worker_for_some_tenants_leaves_the_others_alone(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    handlers = Handlers()
    handlers.add(Definition("report"))(report)
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    async with shop.working(handlers, tenants=()) as worker:
        await shop.at_rest(worker)
    assert (await shop.job(job)).status is Status.QUEUED


def gives_all(claim: Verb) -> Verb:
    return claim


def gives_one_at_first(claim: Verb) -> Verb:
    """As a claim does that raced with others: fewer than there are, and no word of more."""
    first = True

    async def verb(registration: Registration, limit: int) -> Claimed:
        nonlocal first
        claimed: Claimed = await claim(registration, 1 if first else limit)
        if not first or not claimed.claims:
            return claimed
        first = False
        return replace(claimed, more=False)

    return verb


@pytest.mark.parametrize("claim", [gives_all, gives_one_at_first])
async def test_a_wake_goes_on_so_that_a_burst_puts_two_workers_to_work(shop: Shop, claim: StepIn) -> None:
    """Ten jobs that wait for each other, five slots each, one notification, and no fallback for an hour."""
    together = asyncio.Barrier(10)

    async def report(job: Job, payload: Payload) -> None:
        async with asyncio.timeout(30):
            await together.wait()

    handlers = only(report, max_attempts=1)
    first, second = WatchedStores(shop.url), WatchedStores(shop.url)
    for stores in (first, second):
        stores.count("wake_another")
        stores.step_in("claim", claim)
    async with (
        shop.working(handlers, first, slots=5) as one,
        shop.working(handlers, second, slots=5) as other,
    ):
        await shop.at_rest(one)
        await shop.at_rest(other)
        jobs = await shop.enqueue_many(10)
        records = await shop.all_ended(jobs)
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert Counter(record.worker for record in records).most_common()[-1][1] == 5
    assert first.calls["wake_another"] + second.calls["wake_another"] >= 1


ROUNDS = 8


def handlers_for(call: Callable[[Job, object], Awaitable[None]], *keys: str) -> Handlers:
    handlers = Handlers()
    for key in keys:
        handlers.add(Definition(key, max_attempts=1))(call)
    return handlers


async def test_unequal_workers_lose_no_wake(shop: Shop) -> None:
    """Two jobs wait for each other. The worker that is woken first has one slot, and passes its wake on."""
    together = asyncio.Barrier(2)
    chance = random.Random(7)

    async def meet(job: Job, payload: object) -> None:
        async with asyncio.timeout(20):
            await together.wait()

    async with (
        shop.working(handlers_for(meet, "report", "email"), WatchedStores(shop.url), slots=1) as both,
        shop.working(handlers_for(meet, "report"), WatchedStores(shop.url), slots=1) as reports,
        shop.working(handlers_for(meet, "email"), WatchedStores(shop.url), slots=1) as emails,
    ):
        for number in range(ROUNDS):
            for worker in (both, reports, emails):
                await shop.at_rest(worker)
            # The one that can run both goes first.
            await shop.observer.execute(
                "update leasehold.sleepers set id = default where cardinality(definitions) = 1"
            )
            keys = chance.sample(["report", "email"], 2)
            placed = await shop.jobs.enqueue([NewJob(definition=key) for key in keys])
            records = await shop.all_ended([each.id for each in placed])
            assert {record.status for record in records} == {Status.SUCCEEDED}, f"round {number}, {keys}"


async def test_a_full_worker_that_hears_a_wake_passes_it_on(shop: Shop) -> None:
    """Its sleep was found by a producer after its fallback had filled it: the wake is for the other worker."""
    release = asyncio.Event()
    started: list[str] = []

    async def hold(job: Job, payload: object) -> None:
        started.append(job.id)
        await release.wait()

    first = WatchedStores(shop.url)
    async with (
        shop.working(only(hold), first, slots=1) as full,
        shop.working(only(hold), WatchedStores(shop.url), slots=1) as idle,
    ):
        await shop.at_rest(full)
        await shop.at_rest(idle)
        # As if the job had been found by the first worker's fallback: nobody is notified, both rows stay.
        await shop.observer.execute("create table kept as select * from leasehold.sleepers")
        await shop.observer.execute("delete from leasehold.sleepers")
        job = await shop.enqueue()
        full.wake()
        await eventually(lambda: _holds(started, 1), what="the first job's start")
        await shop.observer.execute(
            "insert into leasehold.sleepers (worker_id, definitions) select worker_id, definitions from kept "
            "order by worker_id <> $1::uuid",
            full.state().worker,
        )
        await shop.observer.execute("select leasehold.may_sleep('{report}')")
        other = await shop.enqueue()
        await eventually(lambda: _holds(started, 2), what="the second job's start, on the worker that has room")
        release.set()
        await shop.all_ended([job, other])


async def _holds(started: list[str], count: int) -> bool:
    return len(started) == count

"""Upkeep: a worker reclaims orphans, reconciles claims, prunes old jobs, and wakes others."""

import asyncio
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import Clock, eventually
from tests.postgres_parts import StoreInParts
from tests.worker.shop import ACME, HOUR, SHORT, Doors, Shop, StepIn, Verb, only, raising, session_of

from leasehold.errors import Unreachable
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition, Retention
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Claimed, Registration, Subscription, WorkerFacts
from leasehold.worker import Handlers, Job, upkeep
from leasehold.worker.heartbeat import Leases

Payload = dict[str, Any]
CRASHED, GIVEN_BACK, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED


# The dead


async def test_a_full_worker_still_reclaims_the_jobs_of_dead_workers(shop: Shop) -> None:
    go_on, began = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await go_on.wait()

    handlers = only(report, backoff=Steps(0))
    await shop.store.sync_definitions(handlers.definitions)
    orphan = await shop.enqueue()
    dead = await shop.store.join(Subscription(("report",), (ACME,)), WorkerFacts("dead", 1), HOUR)
    await shop.store.claim(dead, 1)
    five_seconds = timedelta(seconds=5)
    async with shop.working(handlers, slots=1, leases=Leases(busy=five_seconds, idle=five_seconds)):
        own = await shop.enqueue()
        await asyncio.wait_for(began.wait(), 30)
        # Only now: with its one hand free, the worker might run the orphan instead.
        await shop.observer.execute(
            "update leasehold.workers set lease_expires_at = leasehold.clock() where id = $1::uuid", dead.worker
        )
        await shop.waits_again(orphan)
        assert await shop.history(orphan) == [CRASHED]
        assert dead.worker not in {worker.id for worker in await shop.store.workers()}
        go_on.set()
        assert {record.status for record in await shop.all_ended([own, orphan])} == {Status.SUCCEEDED}


async def test_a_dead_worker_costs_its_jobs_a_try_even_the_last(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report, max_attempts=1)
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    dead = await shop.store.join(Subscription(("report",), (ACME,)), WorkerFacts("dead", 1), SHORT.busy)
    await shop.store.claim(dead, 1)
    async with shop.working(handlers, leases=SHORT):
        record = await shop.ended(job)
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "lease_lost")


# Doubts


class LostReply:
    """The first claim that finds something is committed; then its connection breaks, and nobody hears of it."""

    def __init__(self) -> None:
        self.lost: list[JobId] = []

    def __call__(self, claim: Verb) -> Verb:
        store = claim.__self__  # type: ignore[attr-defined]
        assert isinstance(store, StoreInParts)

        async def verb(*arguments: Any) -> Any:
            claimed = await claim(*arguments)
            if self.lost or not claimed.claims:
                return claimed
            self.lost = [claim.job for claim in claimed.claims]
            async with store.links.claim.session() as session:
                session.terminate()
            raise Unreachable("the connection broke before the reply came", fix="")

        return verb


@pytest.mark.parametrize("dispatchers", [1, 4])
async def test_jobs_of_a_claim_with_a_lost_answer_are_given_back(shop: Shop, dispatchers: int) -> None:
    """No other worker could do it: the registration lives on, and so does its lease on jobs that do not run."""
    ran: Counter[JobId] = Counter()

    async def report(job: Job, payload: Payload) -> None:
        ran[job.id] += 1

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    jobs = await shop.enqueue_many(20)
    reply = LostReply()
    shop.doors.step_in("claim", reply)
    async with shop.working(handlers, slots=5, dispatchers=dispatchers):
        assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}
    assert ran == dict.fromkeys(jobs, 1)
    assert len(reply.lost) == 5
    for job in jobs:
        assert await shop.history(job) == ([GIVEN_BACK, SUCCEEDED] if job in reply.lost else [SUCCEEDED])
    steps = [name for name in shop.doors.statements if name in ("fleet/claim_next_tenants", "fleet/held")]
    assert steps[:2] == ["fleet/claim_next_tenants", "fleet/held"]


async def test_a_look_for_strays_that_fails_is_taken_again(shop: Shop) -> None:
    """A claim may be written a lease after its connection broke, and the database be away when that is looked for."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await go_on.wait()

    shop.doors.step_in("held", raising(Unreachable("away", fix="")))
    async with shop.working(only(report), slots=1) as worker:
        await shop.enqueue()
        await began.wait()
        stray = await shop.enqueue()
        assert (await shop.store.claim(session_of(worker).calls.registration, 1)).claims
        session_of(worker).ledger.expect_strays()
        go_on.set()
        await shop.ended(stray)
    assert await shop.history(stray) == [GIVEN_BACK, SUCCEEDED]


async def test_a_worker_stopped_during_a_claim_gives_its_jobs_back(shop: Shop) -> None:
    claimed, never = asyncio.Event(), asyncio.Event()

    def stuck(claim: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            answer = await claim(*arguments)
            if answer.claims:
                claimed.set()
                await never.wait()
            return answer

        return verb

    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    shop.doors.step_in("claim", stuck)
    async with shop.working(handlers):
        await asyncio.wait_for(claimed.wait(), 30)
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await shop.store.workers() == []


# Old jobs


async def test_jobs_whose_retention_is_over_are_pruned_in_bounded_batches(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    monkeypatch.setattr(upkeep, "PRUNED_AT_ONCE", 5)
    handlers, limits = only(report, retention=Retention(succeeded=HOUR)), list[int]()

    def watched(prune: Verb) -> Verb:
        async def verb(limit: int) -> Any:
            limits.append(limit)
            return await prune(limit)

        return verb

    shop.doors.step_in("prune", watched)
    async with shop.working(handlers):
        jobs = await shop.enqueue_many(12)
        await shop.all_ended(jobs)
    await clock.move(2 * HOUR)
    async with shop.working(handlers, prune_every=timedelta(milliseconds=50)):
        kept = await shop.enqueue()
        await shop.ended(kept)

        async def pruned() -> bool:
            return [await shop.door.get(job) for job in jobs] == [None] * 12

        await eventually(pruned, what="the pruning of old jobs")
    assert (await shop.job(kept)).status is Status.SUCCEEDED
    assert len(limits) >= 3
    assert set(limits) == {5}


# The lease


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(shop: Shop) -> None:
    """The heartbeat has a thread of its own. The other worker would evict it, by its own heartbeat."""
    ran = 0

    async def report(job: Job, payload: Payload) -> int:
        nonlocal ran
        ran += 1
        time.sleep(3 * SHORT.busy.total_seconds())  # noqa: ASYNC251 - this is what it is about
        return job.attempt

    handlers = only(report, backoff=Steps(0))
    async with shop.working(handlers, leases=SHORT), shop.working(handlers, leases=SHORT):
        job = await shop.enqueue()
        assert (await shop.ended(job)).result == 1
    assert ran == 1
    assert await shop.history(job) == [SUCCEEDED]


# Subscriptions


async def test_a_worker_claims_only_what_it_has_registered(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    await shop.store.sync_definitions([Definition("report"), Definition("email")])
    email = await shop.enqueue("email", priority=1)
    async with shop.working(only(report)) as worker:
        await shop.all_ended(await shop.enqueue_many(5))
        await shop.at_rest(worker)
    assert (await shop.job(email)).status is Status.QUEUED
    assert await shop.history(email) == []


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


# The colleagues


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
    first, second = Doors(shop.url), Doors(shop.url)
    for doors in (first, second):
        doors.count("wake_another")
        doors.step_in("claim", claim)
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

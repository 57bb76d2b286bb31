"""Upkeep: a worker reclaims the jobs of dead workers, prunes old jobs, and runs operations."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, Clock, eventually
from tests.tenant_kit import ACME, HOUR
from tests.worker import sample_handlers
from tests.worker.shop import SHORT, Payload, Processes, Shop, Verb, only

from leasehold import upkeep
from leasehold.model.backoff import Steps
from leasehold.model.definition import Retention
from leasehold.model.operation import OperationKind
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Filter, NewOperation, Subscription, WorkerFacts
from leasehold.worker import Job
from leasehold.worker.heartbeat import Leases

CRASHED, GIVEN_BACK, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED


# Figures


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("second", [0.0, 5.9, 6.0, 6.1, 12.0, 59.9])
def test_figures_are_added_up_soon_after_each_minute(second: float, chance: float) -> None:
    pause = upkeep.pause_before_roll_up(600.0 + second, chance)
    assert 6.0 <= round(second + pause, 6) % 60 <= 16.0
    assert 0 < pause <= 70


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
        assert await shop.statuses(orphan) == [CRASHED]
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

    shop.stores.step_in("prune", watched)
    async with shop.working(handlers):
        jobs = await shop.enqueue_many(12)
        await shop.all_ended(jobs)
    await clock.move(2 * HOUR)
    async with shop.working(handlers, prune_every=timedelta(milliseconds=50)):
        kept = await shop.enqueue()
        await shop.ended(kept)

        async def pruned() -> bool:
            return [await shop.jobs.get(job) for job in jobs] == [None] * 12

        await eventually(pruned, what="the pruning of old jobs")
    assert (await shop.job(kept)).status is Status.SUCCEEDED
    assert len(limits) >= 3
    assert set(limits) == {5}


@pytest.mark.timeout(150)  # three processes start and die one after the other
@pytest.mark.parametrize("kind", ["poison", "poison_in_thread"])
async def test_a_job_that_kills_its_worker_starts_max_attempts_times(
    shop: Shop, processes: Processes, kind: str
) -> None:
    """The parent restarts children that die, and living workers reclaim the jobs of dead ones."""
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue(kind, payload=processes.payload)
    processes.worker("--processes", "2", "--lease", "1s")
    record = await shop.ended(job, 4 * PATIENCE)
    assert record.status is Status.DEAD_LETTER
    assert await shop.statuses(job) == [CRASHED, CRASHED, CRASHED]
    assert [(note.job, note.attempt) for note in processes.notes("began")] == [(job, 1), (job, 2), (job, 3)]
    assert len({note.pid for note in processes.notes("began")}) == 3


@pytest.mark.faults
async def test_jobs_beside_a_poisonous_one_are_done(shop: Shop, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    poison = await shop.enqueue("poison", payload=processes.payload, max_attempts=2)
    others = await shop.enqueue_many(20, "note", payload=processes.payload)
    processes.worker("--processes", "2", "--lease", "1s")
    records = await shop.all_ended([poison, *others])
    assert Counter(record.status for record in records) == {Status.DEAD_LETTER: 1, Status.SUCCEEDED: 20}


# Operations


@pytest.mark.parametrize("listens", [True, False], ids=["by a wake", "by its heartbeat"])
async def test_a_worker_runs_an_operation_that_was_begun(shop: Shop, listens: bool) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    jobs = [await shop.enqueue() for _ in range(3)]
    await shop.jobs.cancel(jobs)
    new = NewOperation(OperationKind.RETRY, ACME, Filter(statuses=(Status.CANCELED,)))
    async with shop.working(handlers, notify=listens, leases=SHORT):
        operation = await shop.store.operations.begin(new)

        async def succeeded() -> bool:
            return {record.status for record in await shop.jobs.get_many(jobs)} == {Status.SUCCEEDED}

        await eventually(succeeded, what="all jobs to be retried and to succeed")
        ended = await shop.store.operations.get(operation.id)
    assert ended is not None
    assert ended.done == len(jobs)

"""One key, several callers at once: one job, and everybody is told which, as soon as it is certain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, at_once, blocked
from tests.store.bench import KEY, Bench, all_jobs, keyed, new_id
from tests.store.test_dedupe import assert_each_key_makes_one_job
from tests.tenant_kit import ACME, HOUR

from leasehold.errors import TransactionConflict
from leasehold.model.dedupe import Mode, WhileActive, Within
from leasehold.model.job import EnqueueResult, JobId, NewJob
from leasehold.store import CancelAnswer, Store

NEVER_SETTLED = """
    create or replace function leasehold.resolve_conflict(
        tenant text, job leasehold.new_job, holder uuid, seq bigint, now timestamptz
    ) returns boolean language sql as 'select null::boolean'
"""
MODES = pytest.mark.parametrize("mode", [WhileActive(), Within(HOUR)], ids=["active", "within"])


def job(mode: Mode, key: str = KEY) -> NewJob:
    return NewJob(definition="report", dedupe=keyed(mode, key))


async def placed(store: Store, *jobs: NewJob, within: Raw | None = None) -> list[EnqueueResult]:
    return list(await store.tenant(ACME).enqueue(jobs, within=within))


@asynccontextmanager
async def waiting(store: Store, observer: Raw, *jobs: NewJob) -> AsyncIterator["asyncio.Task[list[EnqueueResult]]"]:
    """An enqueue that waits for somebody else's transaction."""
    enqueueing = asyncio.create_task(placed(store, *jobs))
    await blocked(observer)
    yield enqueueing
    await asyncio.gather(enqueueing, return_exceptions=True)


@pytest.fixture
async def first(connections: Connections) -> Raw:
    """The connection of the caller who is first."""
    return await connections.open()


@MODES
async def test_the_second_caller_waits_and_gets_the_first_ones_job(
    bench: Bench, first: Raw, observer: Raw, mode: Mode
) -> None:
    async with first.transaction():
        (held,) = await placed(bench.store, job(mode), within=first)
        second = asyncio.create_task(placed(bench.store, job(mode)))
        await blocked(observer)
    assert await second == [EnqueueResult(held.id, created=False)]


@MODES
async def test_the_second_caller_creates_the_job_after_a_rollback(
    bench: Bench, first: Raw, observer: Raw, mode: Mode
) -> None:
    transaction = first.transaction()
    await transaction.start()
    (undone,) = await placed(bench.store, job(mode), within=first)
    async with waiting(bench.store, observer, job(mode)) as second:
        await transaction.rollback()
        (created,) = await second
    assert created.created
    assert [record.id for record in await all_jobs(bench.jobs)] == [created.id] != [undone.id]


async def test_a_holder_that_is_canceled_frees_its_key(bench: Bench, second_store: Store) -> None:
    held = await bench.enqueue(dedupe=keyed())
    assert await second_store.tenant(ACME).cancel([held]) == {held: CancelAnswer.CANCELED}
    (created,) = await placed(second_store, job(WhileActive()))
    assert created.created


async def test_a_caller_behind_a_canceled_holder_creates_the_job(bench: Bench, first: Raw, observer: Raw) -> None:
    await bench.enqueue(dedupe=keyed())
    transaction = first.transaction()
    await transaction.start()
    await first.execute("delete from leasehold.jobs")
    async with waiting(bench.store, observer, job(WhileActive())) as second:
        await transaction.commit()
        (created,) = await second
    assert created.created


@MODES
async def test_thirty_two_enqueues_with_one_key_make_one_job(bench: Bench, second_store: Store, mode: Mode) -> None:
    stores = [bench.store, second_store]
    answers = await at_once(*(partial(placed, stores[number % 2], job(mode)) for number in range(32)))
    assert sum(each.created for (each,) in answers) == 1
    assert len({each.id for (each,) in answers}) == 1
    assert len(await all_jobs(bench.jobs)) == 1


@MODES
async def test_keys_taken_and_freed_at_once_give_all_callers_answers(bench: Bench, mode: Mode) -> None:
    async def enqueue_and_cancel() -> JobId:
        (answer,) = await placed(bench.store, job(mode))
        await bench.jobs.cancel([answer.id])
        return answer.id

    for _ in range(10):
        ids = await at_once(*(enqueue_and_cancel for _ in range(8)))
        assert {record.id for record in await all_jobs(bench.jobs)} >= set(ids)


# Callers that give up


@MODES
async def test_a_waiting_enqueue_that_is_canceled_leaves_nothing(
    bench: Bench, first: Raw, observer: Raw, mode: Mode
) -> None:
    async with first.transaction():
        (held,) = await placed(bench.store, job(mode), within=first)
        second = asyncio.create_task(placed(bench.store, job(mode), job(mode, "another-key")))
        await blocked(observer)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
    assert [record.id for record in await all_jobs(bench.jobs)] == [held.id]
    assert (await placed(bench.store, job(mode, "another-key")))[0].created


@MODES
async def test_the_pool_works_on_after_all_of_its_connections_were_given_up(
    bench: Bench, first: Raw, observer: Raw, mode: Mode
) -> None:
    async with first.transaction():
        await placed(bench.store, job(mode), within=first)
        many = [asyncio.create_task(placed(bench.store, job(mode))) for _ in range(10)]
        await blocked(observer, 10)
        for each in many:
            each.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        await at_once(*(partial(placed, bench.store, job(mode, f"key-{number}")) for number in range(20)))
    assert len(await all_jobs(bench.jobs)) == 21


@MODES
async def test_a_waiting_enqueue_that_times_out_leaves_nothing(
    bench: Bench, first: Raw, connections: Connections, mode: Mode
) -> None:
    impatient = await connections.open(statement_timeout="50ms")
    async with first.transaction():
        (held,) = await placed(bench.store, job(mode), within=first)
        with pytest.raises(asyncpg.QueryCanceledError):
            await placed(bench.store, job(mode), job(mode, "another-key"), within=impatient)
    assert [record.id for record in await all_jobs(bench.jobs)] == [held.id]
    await impatient.execute("set statement_timeout = 0")  # planning alone may take 50 ms before PostgreSQL 18
    assert await placed(bench.store, job(mode), within=impatient) == [EnqueueResult(held.id, created=False)]


# Several keys


@MODES
async def test_batches_with_crossed_keys_do_not_deadlock(
    bench: Bench, second_store: Store, first: Raw, observer: Raw, mode: Mode
) -> None:
    """Each waits in the middle, for a third one: had they begun at their own ends, they would hold each other."""
    keys = ["one", "two", "three"]
    for middle in keys:
        ends = [key for key in keys if key != middle]
        batch = [job(mode, key) for key in (ends[0], middle, ends[1])]
        transaction = first.transaction()
        await transaction.start()
        await placed(bench.store, job(mode, middle), within=first)
        batches = [
            asyncio.create_task(placed(bench.store, *batch)),
            asyncio.create_task(placed(second_store, *reversed(batch))),
        ]
        await blocked(observer, 2)
        await transaction.rollback()
        answers = await asyncio.gather(*batches)
        assert {each.id for each in answers[0]} == {each.id for each in answers[1]}
        await observer.execute("delete from leasehold.jobs")
        await observer.execute("delete from leasehold.dedupe_holds")


@MODES
async def test_repeatable_read_with_an_unseen_key_is_a_conflict(bench: Bench, first: Raw, mode: Mode) -> None:
    transaction = first.transaction(isolation="repeatable_read")
    await transaction.start()
    await first.execute("select from leasehold.jobs")
    (held,) = await placed(bench.store, job(mode))
    with pytest.raises(TransactionConflict):
        await placed(bench.store, job(mode), within=first)
    await transaction.rollback()
    async with first.transaction(isolation="repeatable_read"):
        assert await placed(bench.store, job(mode), within=first) == [EnqueueResult(held.id, created=False)]


@MODES
async def test_repeatable_read_behind_a_commit_is_a_conflict(
    bench: Bench, first: Raw, connections: Connections, observer: Raw, mode: Mode
) -> None:
    second = await connections.open()
    transaction = second.transaction(isolation="repeatable_read")
    await transaction.start()
    async with first.transaction():
        await placed(bench.store, job(mode), within=first)
        enqueueing = asyncio.create_task(placed(bench.store, job(mode), within=second))
        await blocked(observer)
    with pytest.raises(TransactionConflict):
        await enqueueing
    await transaction.rollback()


# All or none, and what a repeated call leaves behind


async def test_a_batch_that_gives_up_on_a_key_keeps_nothing_of_the_batch(bench: Bench, observer: Raw) -> None:
    """The key is held whenever it looks, and free again whenever it asks by whom."""
    await bench.enqueue(dedupe=keyed())
    await observer.execute(NEVER_SETTLED)
    with pytest.raises(TransactionConflict):
        await placed(bench.store, job(WhileActive()), NewJob(definition="email"))
    assert [record.definition for record in await all_jobs(bench.jobs)] == ["report"]


async def test_a_repeated_call_with_an_id_holds_its_key_no_longer(bench: Bench) -> None:
    """The window counts from the enqueue; the repetition enqueued nothing."""
    once = NewJob(definition="report", id=new_id(), dedupe=keyed(Within(HOUR)))
    assert (await placed(bench.store, once))[0].created
    await bench.move_clock(2 * HOUR)
    assert not (await placed(bench.store, once))[0].created
    assert (await placed(bench.store, job(Within(HOUR))))[0].created


async def test_a_call_refused_for_its_id_does_not_take_another_key(bench: Bench) -> None:
    once = NewJob(definition="report", id=new_id())
    await placed(bench.store, once)
    again = NewJob(definition="report", id=once.id, dedupe=keyed(Within(HOUR)))
    assert not (await placed(bench.store, again))[0].created
    assert (await placed(bench.store, job(Within(HOUR))))[0].created


async def test_two_hundred_keys_of_32_callers_make_one_job_each(bench: Bench) -> None:
    await assert_each_key_makes_one_job(bench, keys=200, callers=32)

"""A job within the caller's transaction lives and dies with it, whichever driver holds it."""

import asyncio
import warnings
from typing import Any

import pytest
from tests.conftest import Raw, eventually
from tests.within.drivers import DRIVERS, Asyncpg, Driver, Psycopg
from tests.worker.shop import Shop

from leasehold import (
    DuplicateJob,
    InvalidInput,
    Leasehold,
    NewJob,
    NotInTransaction,
    PartlyEnqueued,
    Status,
    Tenant,
    TypedDefinition,
)
from leasehold.errors import SchemaMismatch, TransactionConflict, UnknownJob


async def own_rows(observer: Raw) -> int:
    return int(await observer.fetchval("select count(*) from own_rows"))


@pytest.fixture(autouse=True)
async def own_table(observer: Raw) -> None:
    """The caller's own data."""
    await observer.execute("create table own_rows (number integer)")


async def test_a_committed_job_is_enqueued(driver: Driver, acme: Tenant, job: NewJob) -> None:
    await driver.begin()
    (placed,) = await driver.enqueue(acme, job)
    await driver.commit()
    record = await acme.aget(placed.id)
    assert (placed.created, placed.tenant, placed.definition) == (True, "acme", "report")
    assert (record.status, record.payload, record.version) == (Status.QUEUED, {"number": 7}, 1)


async def test_a_rolled_back_job_never_was(driver: Driver, acme: Tenant, job: NewJob) -> None:
    await driver.begin()
    (placed,) = await driver.enqueue(acme, job)
    await driver.rollback()
    with pytest.raises(UnknownJob):
        await acme.aget(placed.id)


async def test_a_job_is_seen_by_nobody_else_before_the_commit(driver: Driver, acme: Tenant, job: NewJob) -> None:
    await driver.begin()
    (placed,) = await driver.enqueue(acme, job)
    with pytest.raises(UnknownJob):
        await acme.aget(placed.id)
    await driver.commit()
    assert (await acme.aget(placed.id)).id == placed.id


async def test_job_and_data_are_committed_together(driver: Driver, acme: Tenant, job: NewJob, observer: Raw) -> None:
    await driver.begin()
    await driver.execute("insert into own_rows values (1)")
    (placed,) = await driver.enqueue(acme, job)
    await driver.execute("insert into own_rows values (2)")
    assert await own_rows(observer) == 0
    await driver.commit()
    assert await own_rows(observer) == 2
    assert await acme.aget(placed.id)


async def test_a_commit_wakes_a_worker_that_no_timer_would(
    driver: Driver, acme: Tenant, job: NewJob, app: Leasehold, shop: Shop
) -> None:
    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        await driver.begin()
        (placed,) = await driver.enqueue(acme, job)
        await driver.commit()
        assert (await shop.ended(placed.id)).result == 7


async def test_a_rollback_wakes_nobody(
    driver: Driver, acme: Tenant, job: NewJob, observer: Raw, app: Leasehold, shop: Shop
) -> None:
    heard: list[str] = []

    async def heard_the_last() -> bool:
        return "the last" in heard

    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        channel = await observer.fetchval("select leasehold.channel($1::uuid)", worker.state().worker)
        for name in (channel, "leasehold:all"):
            await observer.add_listener(name, lambda *said: heard.append(str(said[3])))
        await driver.begin()
        await driver.enqueue(acme, job)
        await driver.rollback()
        await observer.execute("select pg_notify($1, 'the last')", channel)
        await eventually(heard_the_last, what="the last notification")
        await observer.reset()
    assert [each for each in heard if each != "heartbeat"] == ["the last"]
    assert app.ran == []  # type: ignore[attr-defined]


async def test_several_jobs_are_answered_in_their_order(
    driver: Driver, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    await driver.begin()
    placed = await driver.enqueue(acme, *(report.bind(number=number) for number in range(20)))
    await driver.commit()
    assert [(await acme.aget(each.id)).payload["number"] for each in placed] == list(range(20))


async def test_a_refusal_leaves_the_transaction_usable(
    driver: Driver, acme: Tenant, job: NewJob, observer: Raw
) -> None:
    once = acme.options(dedupe_key="the-key", on_conflict="raise")
    (held,) = await once.aenqueue_many([job])
    await driver.begin()
    await driver.execute("insert into own_rows values (1)")
    with pytest.raises(DuplicateJob, match=held.id) as refused:
        await driver.enqueue(once, job)
    assert refused.value.job == held.id
    await driver.execute("insert into own_rows values (2)")
    await driver.commit()
    assert await own_rows(observer) == 2


async def test_a_key_that_the_snapshot_can_not_see_says_run_it_again(
    driver: Driver, acme: Tenant, job: NewJob, observer: Raw
) -> None:
    once = acme.options(dedupe_key="the-key")
    await driver.begin()
    await driver.execute("set transaction isolation level repeatable read")
    await driver.execute("select count(*) from own_rows")
    (held,) = await once.aenqueue_many([job])
    with pytest.raises(TransactionConflict, match="Run the whole transaction again"):
        await driver.enqueue(once, job)
    await driver.rollback()
    await driver.begin()
    (again,) = await driver.enqueue(once, job)
    await driver.commit()
    assert (again.id, again.created) == (held.id, False)


async def test_a_database_without_the_schema_is_named(
    driver: Driver, acme: Tenant, job: NewJob, observer: Raw
) -> None:
    await observer.execute("alter function leasehold.enqueue_jobs rename to elsewhere")
    await driver.begin()
    with pytest.raises(SchemaMismatch, match=r'your connection has no schema "leasehold" of this version'):
        await driver.enqueue(acme, job)
    await driver.rollback()


async def test_a_role_without_the_right_to_enqueue_is_told_what_to_grant(
    driver: Driver, acme: Tenant, job: NewJob, observer: Raw
) -> None:
    await driver.begin()
    await driver.execute("create role nobody_in_particular")
    await driver.execute("grant usage on schema leasehold to nobody_in_particular")
    await driver.execute("set local role nobody_in_particular")
    with pytest.raises(InvalidInput, match=r"grant execute on function leasehold\.enqueue_jobs to"):
        await driver.enqueue(acme, job)
    await driver.rollback()


async def test_a_role_needs_no_right_on_any_table(driver: Driver, acme: Tenant, job: NewJob) -> None:
    await driver.begin()
    await driver.execute("create role nobody_in_particular")
    await driver.execute("grant usage on schema leasehold to nobody_in_particular")
    await driver.execute("grant execute on function leasehold.enqueue_jobs to nobody_in_particular")
    await driver.execute("set local role nobody_in_particular")
    assert (await driver.enqueue(acme.options(dedupe_key="the-key"), job))[0].created
    await driver.rollback()


# Autocommit


@pytest.mark.parametrize("kind", DRIVERS, ids=lambda kind: kind.name.replace(" ", "-"))
async def test_a_connection_in_autocommit_is_warned_about(
    kind: type[Driver], database_url: str, acme: Tenant, job: NewJob
) -> None:
    driver = kind(database_url)
    await driver.open(autocommit=True)
    try:
        with pytest.warns(NotInTransaction, match=r"LH-1020: within\(…\) got an? .* in autocommit"):
            (placed,) = await driver.enqueue(acme, job)
        assert (await acme.aget(placed.id)).status is Status.QUEUED
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await driver.enqueue(acme, job, atomic=False)
    finally:
        await driver.close()


@pytest.mark.parametrize("kind", [Asyncpg, Psycopg], ids=lambda kind: kind.name)
async def test_in_autocommit_an_error_says_which_chunks_stay(
    kind: type[Driver], database_url: str, acme: Tenant, job: NewJob
) -> None:
    driver = kind(database_url)
    await driver.open(autocommit=True)
    try:
        with pytest.raises(PartlyEnqueued, match="4 jobs in 2 chunks were enqueued and stay") as partly:
            await driver.enqueue_until(acme, job, fails_at=5, chunk=2)
    finally:
        await driver.close()
    assert isinstance(partly.value.__cause__, LookupError)
    assert [(await acme.aget(each.id)).status for each in partly.value.placed] == [Status.QUEUED] * 4


@pytest.mark.parametrize("kind", [Asyncpg, Psycopg], ids=lambda kind: kind.name)
async def test_an_error_in_a_transaction_passes_to_the_caller(
    kind: type[Driver], database_url: str, acme: Tenant, job: NewJob
) -> None:
    driver = kind(database_url)
    await driver.open()
    try:
        await driver.begin()
        with pytest.raises(LookupError):
            await driver.enqueue_until(acme, job, fails_at=5, chunk=2)
        await driver.rollback()
    finally:
        await driver.close()
    assert (await acme.jobs.acounts(10))[Status.QUEUED] == 1


async def test_a_transaction_on_an_autocommit_connection_is_one(database_url: str, acme: Tenant, job: NewJob) -> None:
    driver = Psycopg(database_url)
    await driver.open(autocommit=True)
    try:

        def within_a_block() -> None:
            with driver.passed.transaction(force_rollback=True):
                acme.within(driver.passed).enqueue_many([job])

        await driver.call(within_a_block)
    finally:
        await driver.close()
    assert (await acme.jobs.acounts(10))[Status.QUEUED] == 1


async def test_the_warning_names_the_callers_own_line(database_url: str, acme: Tenant, job: NewJob) -> None:
    driver = Asyncpg(database_url)
    await driver.open()
    try:
        with pytest.warns(NotInTransaction) as warned:
            await acme.within(driver.passed).aenqueue_many([job])
    finally:
        await driver.close()
    assert [warning.filename for warning in warned] == [__file__]


# The right verb for it


async def test_the_wrong_verb_is_refused_and_names_its_twin(driver: Driver, acme: Tenant, job: NewJob) -> None:
    handle = acme.within(driver.passed)
    if driver.blocking:
        with pytest.raises(InvalidInput, match=r"which blocks.*Call its twin: ….enqueue_many\("):
            await handle.aenqueue_many([job])
    else:
        with pytest.raises(InvalidInput, match=r"which is awaited.*await ….aenqueue_many\("):
            handle.enqueue_many([job])
    assert (await acme.jobs.acounts(10))[Status.QUEUED] == 1


@pytest.mark.parametrize("passed", [object(), "default", None, asyncio, 7], ids=lambda passed: type(passed).__name__)
def test_an_object_without_a_transaction_is_refused_at_once(acme: Tenant, passed: object) -> None:
    with pytest.raises(InvalidInput, match=r"which holds no transaction.*Pass the connection or session"):
        acme.within(passed)

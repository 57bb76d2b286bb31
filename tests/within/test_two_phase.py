"""PREPARE TRANSACTION after an enqueue: Postgres refuses it if a worker was woken, and takes it without wakes."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest
from tests.conftest import Raw
from tests.worker.shop import Shop

from leasehold import Leasehold, Tenant, TypedDefinition
from leasehold.errors import UnknownJob
from leasehold.model.status import Status

Report = TypedDefinition[..., int]
# The server knows prepared transactions by one name for all of its databases.
NAME = f"order-{uuid4().hex}"
ADVISORY_LOCKS = """
    select count(*) from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and l.locktype = 'advisory' and l.pid is null
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Raw]:
    """In a transaction that the test prepares."""
    opened = await asyncpg.connect(database_url)
    try:
        if await opened.fetchval("show max_prepared_transactions") == "0":
            pytest.skip("this server has max_prepared_transactions = 0")
        await opened.execute("begin")
        yield opened
        await opened.execute("rollback")
        if await opened.fetchval("select exists (select from pg_prepared_xacts where gid = $1)", NAME):
            await opened.execute(f"rollback prepared '{NAME}'")
    finally:
        await opened.close()


async def test_a_wake_keeps_a_transaction_from_being_prepared(
    connection: Raw, acme: Tenant, report: Report, app: Leasehold, shop: Shop
) -> None:
    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        placed = await acme.within(connection).aenqueue(report, number=7)
        refusal = "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"
        with pytest.raises(asyncpg.FeatureNotSupportedError, match=refusal):
            await connection.execute(f"prepare transaction '{NAME}'")
        with pytest.raises(UnknownJob):
            await acme.aget(placed.id)


async def test_under_repeatable_read_a_wake_is_always_sent(connection: Raw, acme: Tenant, report: Report) -> None:
    await connection.execute("set transaction isolation level repeatable read")
    await acme.within(connection).aenqueue(report, number=7)
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="NOTIFY"):
        await connection.execute(f"prepare transaction '{NAME}'")


async def test_without_wakes_it_is_prepared_and_runs_when_committed(
    connection: Raw, acme: Tenant, report: Report, app: Leasehold, shop: Shop
) -> None:
    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        placed = await acme.within(connection, wakes=False).aenqueue(report, number=7)
        await connection.execute(f"prepare transaction '{NAME}'")
        await connection.execute(f"commit prepared '{NAME}'")
        assert await connection.fetchval("select leasehold.wake_workers('acme', 'report')") == 1
        assert (await shop.ended(placed.id)).result == 7


async def test_many_are_prepared_without_wakes(
    connection: Raw, acme: Tenant, report: Report, app: Leasehold, shop: Shop
) -> None:
    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        jobs = [report.bind(number=number) for number in range(3)]
        placed = await acme.within(connection, wakes=False).aenqueue_many(jobs)
        await connection.execute(f"prepare transaction '{NAME}'")
        await connection.execute(f"commit prepared '{NAME}'")
        assert await connection.fetchval("select leasehold.wake_workers('acme', 'report')") == 1
        assert [record.result for record in await shop.all_ended([one.id for one in placed])] == [0, 1, 2]


async def test_sql_is_prepared_without_wakes(connection: Raw, acme: Tenant, app: Leasehold, shop: Shop) -> None:
    jobs = '[{"definition": "report", "payload": {"number": 7}}]'
    async with shop.working(app.handlers) as worker:
        await shop.at_rest(worker)
        answer = await connection.fetchrow(
            "select * from leasehold.enqueue_jobs('acme', $1::text::jsonb, wakes => false)", jobs
        )
        assert answer is not None
        await connection.execute(f"prepare transaction '{NAME}'")
        await connection.execute(f"commit prepared '{NAME}'")
        await connection.execute("select leasehold.wake_workers('acme', 'report')")
        assert (await shop.ended(answer["job_id"])).result == 7


async def test_a_job_that_is_prepared_and_rolled_back_never_was(
    connection: Raw, acme: Tenant, report: Report
) -> None:
    placed = await acme.within(connection, wakes=False).aenqueue(report, number=7)
    await connection.execute(f"prepare transaction '{NAME}'")
    await connection.execute(f"rollback prepared '{NAME}'")
    with pytest.raises(UnknownJob):
        await acme.aget(placed.id)


@pytest.mark.parametrize(("wakes", "locks"), [(True, 1), (False, 0)])
async def test_only_without_wakes_may_workers_sleep_until_the_commit(
    connection: Raw, acme: Tenant, report: Report, wakes: bool, locks: int
) -> None:
    """A prepared transaction keeps the lock that a producer takes, and with it every worker awake."""
    placed = await acme.within(connection, wakes=wakes).aenqueue(report, number=7)
    await connection.execute(f"prepare transaction '{NAME}'")
    assert await connection.fetchval(ADVISORY_LOCKS) == locks
    await connection.execute(f"commit prepared '{NAME}'")
    assert (await acme.aget(placed.id)).status is Status.QUEUED

"""job.transaction() on sessions and connections of SQLAlchemy, psycopg and asyncpg."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy import Engine, insert, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.worker.effects import effects, effects_table, run_one, write
from tests.worker.shop import Shop, only

from leasehold.errors import InvalidInput
from leasehold.model.status import Status
from leasehold.worker import Job

pytestmark = pytest.mark.usefixtures("effects_table")


@pytest.fixture
async def async_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://", 1))
    yield engine
    await engine.dispose()


async def test_an_async_session_of_sqlalchemy(shop: Shop, async_engine: AsyncEngine) -> None:
    async def handler(job: Job, payload: Any) -> str:
        async with job.transaction(AsyncSession(async_engine)) as session:
            await session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
            if job.attempt == 1:
                raise ConnectionError
        return "kept"

    record = await run_one(shop, handler)
    assert (record.status, record.result) == (Status.SUCCEEDED, "kept")
    assert await effects(shop) == [(record.id, "2")]


async def test_a_session_of_sqlalchemy_in_a_thread(shop: Shop, engine: Engine) -> None:
    threads: list[str] = []

    def handler(job: Job, payload: Any) -> str:
        threads.append(threading.current_thread().name)
        job.log("from a thread")
        with job.transaction(Session(engine)) as session:
            session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
        if job.attempt == 1:
            raise ConnectionError
        return "kept"

    record = await run_one(shop, handler)
    assert (record.status, record.result) == (Status.SUCCEEDED, "kept")
    assert await effects(shop) == [(record.id, "2")]
    assert all("handler" in name for name in threads)
    assert [line.text for line in await shop.lines(record.id, 2)] == ["from a thread"]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit


async def test_a_commit_whose_error_has_no_text_fails_its_own_job(shop: Shop, engine: Engine) -> None:
    class Broken(Session):
        def commit(self) -> None:
            raise Unspeakable

    session = Broken(engine)

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(session):
            pass

    async with shop.working(only(handler, max_attempts=1)):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "Unspeakable")
    # Else it would hold the lock of the job, and its end would wait 10 s, until the server ends the session.
    assert not session.in_transaction()


async def test_scoped_sessions_of_sqlalchemy(shop: Shop, engine: Engine, async_engine: AsyncEngine) -> None:
    scoped = scoped_session(sessionmaker(engine))
    async_scoped = async_scoped_session(async_sessionmaker(async_engine), asyncio.current_task)
    given: list[bool] = []

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(scoped) as session:
            given.append(session is scoped)
            session.execute(insert(effects_table).values(job=job.id, attempt=f"sync {job.attempt}"))
        if job.attempt == 1:
            raise ConnectionError

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(async_scoped) as session:
            given.append(session is async_scoped)
            await session.execute(insert(effects_table).values(job=job.id, attempt=f"async {job.attempt}"))
        if job.attempt == 1:
            raise ConnectionError

    assert (await run_one(shop, handler)).status is Status.SUCCEEDED
    assert (await run_one(shop, async_handler)).status is Status.SUCCEEDED
    assert [attempt for _, attempt in await effects(shop)] == ["async 2", "sync 2"]
    assert given == [True] * 4


async def test_what_was_added_to_a_session_is_written_before_the_finish(shop: Shop, engine: Engine) -> None:
    """Its constraint is broken by the flush, not by the commit, while nothing is locked yet."""
    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "items"
        id: Mapped[int] = mapped_column(primary_key=True)

    await shop.observer.execute("create table items (id int primary key)")

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)) as session:
            session.add(Item(id=1))

    assert (await run_one(shop, handler, max_attempts=1)).status is Status.SUCCEEDED
    record = await run_one(shop, handler, max_attempts=1)
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "IntegrityError")
    assert await shop.observer.fetchval("select count(*) from items") == 1


@pytest.mark.parametrize("kind", ["session", "connection"])
async def test_a_session_within_its_own_begin_or_in_autocommit_is_refused(
    shop: Shop, engine: Engine, kind: str
) -> None:
    def handler(job: Job, payload: Any) -> None:
        if kind == "session":
            with Session(engine) as session, session.begin(), job.transaction(session):
                raise AssertionError
        with (
            engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
            job.transaction(connection),
        ):
            raise AssertionError

    record = await run_one(shop, handler, max_attempts=1)
    assert record.last_error_code == InvalidInput.__name__
    assert ("begin()" if kind == "session" else "autocommit") in record.last_error


async def test_a_session_closed_by_its_handler_fails_the_job_for_good(shop: Shop, async_engine: AsyncEngine) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with AsyncSession(async_engine) as session, job.transaction(session):
            await session.execute(insert(effects_table).values(job=job.id, attempt="1"))

    record = await run_one(shop, handler)
    assert (record.status, record.last_error_code) == (Status.FAILED, "transaction_ended")
    assert await effects(shop) == []


async def test_connections_of_sqlalchemy(shop: Shop, engine: Engine, async_engine: AsyncEngine) -> None:
    values = text("insert into effects values (:job, :attempt)")

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(engine.connect()) as connection:
            connection.execute(values, {"job": job.id, "attempt": "sync"})

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(await async_engine.connect()) as connection:
            await connection.execute(values, {"job": job.id, "attempt": "async"})

    records = [await run_one(shop, handler), await run_one(shop, async_handler)]
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert [attempt for _, attempt in await effects(shop)] == ["async", "sync"]


async def test_connections_of_psycopg(shop: Shop, database_url: str) -> None:
    def handler(job: Job, payload: Any) -> None:
        connection = psycopg.connect(database_url, row_factory=dict_row)
        with job.transaction(connection):
            connection.execute("insert into effects values (%s, %s)", (job.id, f"sync {job.attempt}"))
            if job.attempt == 1:
                raise ConnectionError

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(await psycopg.AsyncConnection.connect(database_url)) as connection:
            await connection.execute("insert into effects values (%s, %s)", (job.id, f"async {job.attempt}"))
            if job.attempt == 1:
                raise ConnectionError

    records = [await run_one(shop, handler), await run_one(shop, async_handler)]
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert [attempt for _, attempt in await effects(shop)] == ["async 2", "sync 2"]


async def test_a_connection_of_a_psycopg_pool_goes_back_to_it(shop: Shop, database_url: str) -> None:
    with ConnectionPool(database_url, min_size=1, max_size=1, open=True) as pool:

        def handler(job: Job, payload: Any) -> None:
            with job.transaction(pool.getconn(timeout=20)) as connection:
                connection.execute("insert into effects values (%s, %s)", (job.id, str(job.attempt)))
                if job.attempt == 1:
                    raise ConnectionError

        record = await run_one(shop, handler)
        assert record.attempt == 2
        with pool.connection(timeout=20) as connection:
            assert connection.execute("select count(*) from effects").fetchone() == (1,)


async def test_a_connection_of_asyncpg_and_one_of_its_pools(shop: Shop, database_url: str) -> None:
    async with asyncpg.create_pool(database_url, min_size=0, max_size=1) as pool:

        async def handler(job: Job, payload: Any) -> None:
            brought = await (asyncpg.connect(database_url) if job.attempt == 1 else pool.acquire())
            async with job.transaction(brought) as connection:
                await write(connection, job)
            if job.attempt < 3:
                raise ConnectionError

        record = await run_one(shop, handler)
    assert record.attempt == 3
    assert await effects(shop) == [(record.id, "3")]


async def test_an_asyncpg_connection_in_a_transaction_is_refused(shop: Shop, database_url: str) -> None:
    async def handler(job: Job, payload: Any) -> None:
        connection = await asyncpg.connect(database_url)
        try:
            async with connection.transaction(), job.transaction(connection):
                raise AssertionError
        finally:
            await connection.close()

    record = await run_one(shop, handler, max_attempts=1)
    assert "in a transaction" in (record.last_error or "")


async def test_what_can_not_be_written_in_and_the_wrong_colour_are_refused(
    shop: Shop, engine: Engine, async_engine: AsyncEngine
) -> None:
    async def unknown(job: Job, payload: Any) -> None:
        async with job.transaction(engine):
            raise AssertionError

    async def blocking(job: Job, payload: Any) -> None:
        async with job.transaction(Session(engine)):
            raise AssertionError

    async def with_in_a_coroutine(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)):
            raise AssertionError

    def nothing_in_a_thread(job: Job, payload: Any) -> None:
        with job.transaction():
            raise AssertionError

    for handler, why in (
        (unknown, "sqlalchemy.engine.base.Engine"),
        (blocking, "event loop"),
        (with_in_a_coroutine, "plain functions"),
        (nothing_in_a_thread, "of yours"),
    ):
        record = await run_one(shop, handler, max_attempts=1)
        assert why in (record.last_error or "")

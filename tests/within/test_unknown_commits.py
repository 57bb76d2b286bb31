"""A connection that breaks while a commit is under way leaves it open whether there is a job. Repeating the call
with the same id answers it, and can't enqueue twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from tests.conftest import Raw
from tests.proxy import Proxy

from leasehold import Enqueued, Job, Leasehold, Tenant, TypedDefinition, Unreachable

often = pytest.mark.parametrize("times", [21, pytest.param(201, marks=pytest.mark.faults)])
Report = TypedDefinition[[int], None]


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Leasehold]:
    """An app whose own connections go through the network that breaks."""
    app = Leasehold(proxy.url)
    app.job(report)
    yield app
    await asyncio.to_thread(app.close)


async def report(job: Job, number: int) -> None: ...


async def jobs_by_id(observer: Raw) -> dict[str, int]:
    rows = await observer.fetch("select id::text, count(*) from leasehold.jobs group by id")
    return {row[0]: row[1] for row in rows}


def break_at(proxy: Proxy, number: int, message_with: bytes) -> bool:
    """Two of three times the commit is done and its reply lost; else it never arrives. Whether it is done."""
    done = number % 3 != 2
    (proxy.swallow if done else proxy.lose)(message_with)
    return done


@often
async def test_repeating_an_enqueue_with_a_lost_answer_answers_it(
    far: Leasehold, proxy: Proxy, observer: Raw, times: int
) -> None:
    definition = far.definition("report")
    assert definition is not None
    ids = []
    async with far.open():
        acme = far.tenant("acme")
        await acme.options(id=uuid4(), delay="1d").aenqueue(definition, -1)
        for number in range(times):
            ids.append(str(uuid4()))
            handle = acme.options(id=ids[-1])
            done = break_at(proxy, number, ids[-1].encode())
            with pytest.raises(Unreachable, match="wholly or not at all"):
                await handle.aenqueue(definition, number)
            again = await handle.aenqueue(definition, number)
            assert (again.id, again.created) == (ids[-1], not done)
            assert (await handle.aenqueue(definition, number)).created is False
    found = await jobs_by_id(observer)
    assert (proxy.swallowed, proxy.lost) == (times * 2 // 3, times // 3)
    assert {job: found[job] for job in ids} == dict.fromkeys(ids, 1)
    assert len(found) == times + 1


@pytest.fixture
async def near(database_url: str) -> AsyncIterator[Leasehold]:
    """An app whose own connections never break: only the caller's does."""
    app = Leasehold(database_url)
    app.job(report)
    async with app.open():
        yield app
    await asyncio.to_thread(app.close)


async def through_asyncpg(url: str, handle: Tenant, definition: Report, number: int) -> Enqueued[None]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("insert into own_rows values ($1)", number)
            return await handle.within(connection).aenqueue(definition, number)
    finally:
        connection.terminate()


async def through_psycopg(url: str, handle: Tenant, definition: Report, number: int) -> Enqueued[None]:
    def block() -> Enqueued[None]:
        with psycopg.connect(url) as connection:
            connection.execute("insert into own_rows values (%s)", [number])
            return handle.within(connection).enqueue(definition, number)

    return await asyncio.to_thread(block)


@often
@pytest.mark.parametrize("through", [through_asyncpg, through_psycopg], ids=["asyncpg", "psycopg"])
async def test_repeating_an_unknown_commit_answers_it(
    near: Leasehold,
    proxy: Proxy,
    observer: Raw,
    through: Callable[[str, Tenant, Report, int], Awaitable[Enqueued[None]]],
    times: int,
) -> None:
    """Not created says: the first time was committed, with all that belonged to it."""
    definition = near.definition("report")
    assert definition is not None
    await observer.execute("create table own_rows (number integer)")
    ids = []
    for number in range(times):
        ids.append(str(uuid4()))
        handle = near.tenant("acme").options(id=ids[-1])
        done = break_at(proxy, number, b"COMMIT")
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.OperationalError)):
            await through(proxy.url, handle, definition, number)
        assert bool(await observer.fetchval("select count(*) from own_rows where number = $1", number)) == done
        assert (await through(proxy.url, handle, definition, number)).created is not done
    assert (proxy.swallowed, proxy.lost) == (times * 2 // 3, times // 3)
    assert await jobs_by_id(observer) == dict.fromkeys(ids, 1)

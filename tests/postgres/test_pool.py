"""The pool: how many it lends, to whom, and what becomes of those that come back."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.conftest import Raw, eventually
from tests.proxy import Proxy

from leasehold.engines.postgres import pool
from leasehold.engines.postgres.database import POOL_SIZE, Database, Link
from leasehold.errors import Unreachable, ValueRefused

if TYPE_CHECKING:
    from leasehold.engines.postgres.pool import Session

SESSIONS = """
    select count(*) from pg_stat_activity where datname = current_database() and application_name = 'leasehold'
"""


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "leasehold")
    yield database
    await database.close()


async def test_the_same_connection_serves_one_caller_after_the_other(database: Database) -> None:
    async with database.connection() as first:
        pass
    async with database.connection() as second:
        assert second is first


async def test_a_caller_waits_for_the_first_connection_that_returns(database: Database) -> None:
    loans = [database.connection() for _ in range(POOL_SIZE)]
    lent = [await loan.__aenter__() for loan in loans]
    late = database.connection()
    waiting = asyncio.create_task(late.__aenter__())
    await asyncio.sleep(0)
    assert not waiting.done()
    await loans[3].__aexit__(None, None, None)
    assert await waiting is lent[3]
    for loan in (late, *loans[:3], *loans[4:]):
        await loan.__aexit__(None, None, None)


async def test_a_waiter_that_gives_up_takes_nobodys_place(database: Database) -> None:
    loans = [database.connection() for _ in range(POOL_SIZE)]
    for loan in loans:
        await loan.__aenter__()
    impatient = asyncio.create_task(database.connection().__aenter__())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    for loan in loans:
        await loan.__aexit__(None, None, None)
    async with asyncio.TaskGroup() as all_at_once:
        for _ in range(3 * POOL_SIZE):
            all_at_once.create_task(_used(database))


async def _used(database: Database) -> None:
    async with database.connection() as connection:
        await connection.fetchval("select 1")


async def test_a_connection_whose_statement_was_canceled_is_not_lent_again(database: Database, observer: Raw) -> None:
    """When the caller that canceled it goes on, the statement is over."""
    async with database.connection() as connection:
        pid = connection.get_server_pid()

    async def sleeps() -> None:
        async with database.connection() as connection:
            await connection.execute("select pg_sleep(600)")

    async def runs() -> bool:
        state = await observer.fetchval("select wait_event from pg_stat_activity where pid = $1", pid)
        return bool(state == "PgSleep")

    sleeping = asyncio.create_task(sleeps())
    await eventually(runs, what="the sleep")
    sleeping.cancel()
    await asyncio.wait([sleeping])
    assert not await runs()
    async with database.connection() as connection:
        assert connection.get_server_pid() != pid


async def test_a_connection_left_in_a_transaction_is_not_lent_again(database: Database) -> None:
    async with database.connection() as first:
        await first.execute("begin")
    async with database.connection() as second:
        assert second is not first
        assert not second.is_in_transaction()


async def test_a_lost_connection_makes_room_for_another(database: Database, observer: Raw) -> None:
    for _ in range(POOL_SIZE + 1):
        async with database.connection() as connection:
            connection.terminate()
    await _used(database)


async def test_superfluous_connections_are_closed(
    database: Database, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE", 0.05)
    loans = [database.connection() for _ in range(4)]
    for loan in loans:
        await loan.__aenter__()
    for loan in loans:
        await loan.__aexit__(None, None, None)

    async def one_is_left() -> bool:
        await _used(database)
        return bool(await observer.fetchval(SESSIONS) == 1)

    await eventually(one_is_left, what="one session")
    await _used(database)


async def test_a_connection_used_since_the_last_sweep_stays_open(database: Database) -> None:
    """The sweeps begin when the first connection comes back."""
    unused, used = await _open_idle(database, 2)
    assert database._pool is not None
    database._pool._close_the_unused()
    assert [unused.is_closed(), used.is_closed()] == [True, False]


async def test_a_failed_connection_takes_no_room(database_url: str) -> None:
    database = Database("postgresql://127.0.0.1:1/nobody", "leasehold")
    for _ in range(POOL_SIZE + 1):
        with pytest.raises(Exception, match="can't be reached"):
            await database.fetch("administration/tenants", limit=1, after="")


# ------------------------------------------------------------------------------------------------- no answer came


async def _ask(link: Link) -> None:
    async with link.session() as connection:
        await connection.fetch("select 1")


async def _open_idle(database: Database, count: int) -> "list[Session]":
    """Opens connections that have come back to the pool, the first of them first."""
    loans = [database.connection() for _ in range(count)]
    opened = [await loan.__aenter__() for loan in loans]
    for loan in loans:
        await loan.__aexit__(None, None, None)
    return opened


async def _until_none_is_stranded(proxy: Proxy) -> None:
    async def all_ended() -> bool:
        return proxy.stranded == 0

    await eventually(all_ended, what="the end of the dead connections")


async def _give_no_answer(database: Database) -> None:
    """Fails as a statement without an answer does, while another connection is used."""
    async with database.connection():
        await _used(database)
        raise TimeoutError


async def test_idle_connections_end_with_one_that_gave_no_answer(proxy: Proxy) -> None:
    """They died with it, mostly: each would cost its next caller a whole timeout."""
    database = Database(proxy.url, "leasehold", statement_timeout=0.1)
    await _open_idle(database, 3)
    assert proxy.strand() == 3
    with pytest.raises(TimeoutError):
        await _used(database)
    await _used(database)
    await _until_none_is_stranded(proxy)
    await database.close()


async def test_idle_connections_end_after_a_caller_gave_up(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.05)
    database = Database(proxy.url, "leasehold")
    await _open_idle(database, 3)
    assert proxy.strand() == 3
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_used(database), 0.1)
    await _used(database)
    await _until_none_is_stranded(proxy)
    await database.close()


async def test_idle_connections_end_with_a_link_that_gave_no_answer(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.05)
    database = Database(proxy.url, "leasehold")
    link = Link(database, {})
    await _ask(link)
    await _used(database)
    assert proxy.strand() == 2
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_ask(link), 0.1)
    await _until_none_is_stranded(proxy)
    await link.close()
    await database.close()


async def test_connections_that_answered_meanwhile_stay_open(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.0)
    unused, used, asked = await _open_idle(database, 3)
    with pytest.raises(TimeoutError):
        await _give_no_answer(database)
    assert [each.is_closed() for each in (unused, used, asked)] == [True, False, True]


async def test_connections_that_are_lent_stay_open(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.0)
    await _open_idle(database, 3)
    async with database.connection() as lent:
        with pytest.raises(TimeoutError):
            await _give_no_answer(database)
        assert await lent.fetchval("select 1") == 1


async def test_a_caller_that_gives_up_soon_ends_its_own_connection_only(database: Database) -> None:
    others = await _open_idle(database, 3)
    asked = others.pop()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_sleep_on(database), 0.05)
    assert asked.is_closed()
    assert not any(other.is_closed() for other in others)


async def test_an_error_of_a_statement_leaves_idle_connections_open(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SILENCE", 0.0)
    opened = await _open_idle(database, 3)
    link = Link(database, {})
    for ask in (database.connection, link.session):
        with pytest.raises((asyncpg.DivisionByZeroError, ValueRefused)):
            async with ask() as connection:
                await connection.fetch("select 1 / 0")
    with pytest.raises(Unreachable):
        async with link.session() as connection:
            await connection.execute("set statement_timeout = 1; select pg_sleep(5)")
    assert not any(each.is_closed() for each in opened)
    await link.close()


async def _sleep_on(database: Database) -> None:
    async with database.connection() as connection:
        await connection.fetchval("select pg_sleep(5)")

"""Every statement has a time limit, and every connection has keepalives: a peer may vanish without a word."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.conftest import PATIENCE, Raw
from tests.postgres.race_tools import Connections, T, parts_of
from tests.postgres_parts import open_parts
from tests.proxy import Proxy
from tests.store.bench import Bench, keyed
from tests.tenant_kit import ACME

from leasehold import Job, Leasehold
from leasehold.engines.postgres import handler_transaction
from leasehold.engines.postgres.database import POOL_SIZE, Database
from leasehold.errors import Unreachable
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, NewJob
from leasehold.store import Store

SHORT = timedelta(milliseconds=500)


@pytest.fixture
async def far(store: Store, proxy: Proxy) -> AsyncIterator[Store]:
    """A store behind the proxy, whose statements may take 0.5 s; its pool has a connection."""
    await store.sync_definitions([Definition("report")])
    far = await at_last(lambda: open_parts(proxy.url, SHORT))
    await at_last(lambda: far.tenant(ACME).counts(1))
    yield far
    await far.close()


async def at_last(call: Callable[[], Awaitable[T]]) -> T:
    """Tries again: on a busy machine a statement may really take 0.5 s."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            try:
                return await call()
            except Unreachable:
                await asyncio.sleep(0)


async def test_an_enqueue_on_a_dead_connection_ends_and_the_next_succeeds(far: Store, proxy: Proxy) -> None:
    assert proxy.strand()
    with pytest.raises(Unreachable, match=r"did not answer in time .*wholly or not at all"):
        await far.tenant(ACME).enqueue([NewJob(definition="report")])
    assert await at_last(lambda: far.tenant(ACME).enqueue([NewJob(definition="report")]))


async def test_a_blocking_enqueue_on_a_dead_connection_ends(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_STATEMENT_TIMEOUT", "500ms")
    app = Leasehold(proxy.url)

    @app.job
    def report(job: Job) -> None: ...

    enqueue = partial(asyncio.to_thread, partial(app.tenant("acme").enqueue, report))
    try:
        await at_last(enqueue)
        assert proxy.strand()
        with pytest.raises(Unreachable, match="did not answer in time"):
            await enqueue()
    finally:
        await asyncio.to_thread(app.close)


async def test_a_producer_behind_a_lock_gives_up_and_so_does_the_server(
    far: Store, connections: Connections, observer: Raw
) -> None:
    job, holder = NewJob(definition="report", dedupe=keyed()), await connections.open()
    async with holder.transaction():
        await far.tenant(ACME).enqueue([job], within=holder)
        with pytest.raises(Unreachable, match="did not answer in time"):
            await far.tenant(ACME).enqueue([job])
        await observer.execute("select pg_stat_clear_snapshot()")
        assert not await observer.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )


async def test_a_bulk_on_a_dead_connection_ends(far: Store, proxy: Proxy) -> None:
    async def fill() -> None:
        async with far.tenant(ACME).bulk_transaction() as bulk:
            assert proxy.strand()
            await bulk.enqueue([NewJob(definition="report") for _ in range(10)])

    with pytest.raises(Unreachable):
        await fill()
    assert await at_last(lambda: far.tenant(ACME).enqueue([NewJob(definition="report")]))


async def test_a_caller_that_finds_the_pool_empty_gives_up(far: Store) -> None:
    loans = [parts_of(far).database.connection() for _ in range(POOL_SIZE)]
    for loan in loans:
        await at_last(loan.__aenter__)
    with pytest.raises(Unreachable, match="no connection of the pool became free"):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await far.tenant(ACME).counts(1)
    for loan in loans:
        await loan.__aexit__(None, None, None)
    await at_last(lambda: far.tenant(ACME).counts(1))


async def test_a_caller_may_wait_for_the_pool_without_a_limit(database_url: str) -> None:
    database = Database(database_url, "leasehold", statement_timeout=None)
    loans = [database.connection() for _ in range(POOL_SIZE)]
    for loan in loans:
        await loan.__aenter__()
    late = database.connection()
    waiting = asyncio.create_task(late.__aenter__())
    await asyncio.sleep(0)
    await loans.pop().__aexit__(None, None, None)
    await waiting
    for loan in (*loans, late):
        await loan.__aexit__(None, None, None)
    await database.close()


async def test_a_handlers_transaction_on_a_dead_connection_is_not_begun(
    far: Store, proxy: Proxy, bench: Bench
) -> None:
    claim = await bench.running()
    await at_last(lambda: begun_and_rolled_back(far, claim))
    assert proxy.strand()
    dead = far.transaction(claim, None)
    with pytest.raises(Unreachable, match="did not answer in time"):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await dead.begin()
    dead.abandon()
    await at_last(lambda: begun_and_rolled_back(far, claim))


async def test_a_handlers_transaction_waits_for_a_place_only_so_long(
    far: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_transaction, "POOL_SIZE", 1)
    claim = await bench.running()
    first, second = far.transaction(claim, None), far.transaction(claim, None)
    await at_last(first.begin)
    with pytest.raises(Unreachable, match="did not answer in time"):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await second.begin()
    second.abandon()
    await first.rollback()
    await at_last(lambda: begun_and_rolled_back(far, claim))


async def test_a_handlers_own_statements_have_no_limit(far: Store, bench: Bench) -> None:
    transaction = far.transaction(await bench.running(), None)
    await at_last(transaction.begin)
    assert await transaction.connection.fetchval("show statement_timeout") == "0"
    assert transaction.connection._config.command_timeout is None
    await transaction.rollback()


async def begun_and_rolled_back(store: Store, claim: Claim) -> None:
    transaction = store.transaction(claim, None)
    try:
        await transaction.begin()
    except Unreachable:
        transaction.abandon()
        raise
    await transaction.rollback()


async def test_every_connection_has_keepalives(far: Store, bench: Bench) -> None:
    engine = parts_of(far)
    listener = await at_last(engine.database.listener.connect)
    handlers = far.transaction(await bench.running(), None)
    await at_last(handlers.begin)
    try:
        async with engine.database.connection() as pooled, engine.links.heartbeat.session() as link:
            connections = (pooled, link, listener, handlers.connection)
            assert [_keepalive(each) for each in connections] == 4 * [(1, 30_000)]
    finally:
        await handlers.rollback()
        await listener.close()


async def test_the_server_probes_our_connections_too(far: Store) -> None:
    """The lock of a listener ends with its session: after its machine vanished, the server has to find out.

    On a unix socket the server shows 0, so this asks for the value that the session was opened with.
    """
    async with parts_of(far).database.connection() as connection:
        asked = "select reset_val from pg_settings where name = 'tcp_keepalives_idle'"
        assert await connection.fetchval(asked) == "15"


def _keepalive(connection: Any) -> tuple[int, int]:
    """Whether an idle connection is probed, and how long data may be under way without an answer."""
    connected = connection._transport.get_extra_info("socket")
    user_timeout = getattr(socket, "TCP_USER_TIMEOUT", None)
    return (
        int(connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)),
        30_000 if user_timeout is None else int(connected.getsockopt(socket.IPPROTO_TCP, user_timeout)),
    )

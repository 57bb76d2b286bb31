"""Presets of a database or a role do not change our statements; a server that can't write is left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from tests.conftest import Raw
from tests.lossy_proxies import through_a_pooler
from tests.postgres.race_tools import Connections, blocked, parts_of
from tests.postgres_parts import open_parts
from tests.tenant_kit import ACME, HOUR

from leasehold.engines.postgres.connections import options_for
from leasehold.engines.postgres.database import Database
from leasehold.errors import Unreachable
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.store import CancelAnswer, Store, Subscription, WorkerFacts

Preset = Callable[[str, str], Awaitable[None]]
PRESETS = {
    "lock_timeout": "1ms",
    # Behind a pooler the first statement of a connection runs under it: 1 ms was too short for it on a busy machine.
    "statement_timeout": "5s",
    "default_transaction_isolation": "serializable",
}


@pytest.fixture
def preset(observer: Raw) -> Preset:
    """Sets something for all sessions of this test's database that begin from now on."""

    async def preset(name: str, value: str) -> None:
        database = await observer.fetchval("select current_database()")
        await observer.execute(f"alter database \"{database}\" set {name} = '{value}'")

    return preset


@pytest.fixture
async def presets(observer: Raw, preset: Preset) -> None:
    for name, value in PRESETS.items():
        await preset(name, value)


@pytest.fixture
async def pooled_url(database_url: str, presets: None) -> AsyncIterator[str]:
    async with through_a_pooler(database_url) as url:
        yield url


async def show(store: Store, name: str) -> set[str]:
    """Returns the settings of each kind of connection of a store."""
    engine = parts_of(store)
    listener = await engine.database.listener.connect()
    try:
        async with engine.database.connection() as pooled, engine.links.finish.session() as link:
            return {str(await each.fetchval(f"show {name}")) for each in (pooled, link, listener)}
    finally:
        await listener.close()


async def test_a_database_that_prefers_serializable_is_not_followed(database_url: str, presets: None) -> None:
    store = await open_parts(database_url)
    try:
        assert await show(store, "transaction_isolation") == {"read committed"}
    finally:
        await store.close()


@pytest.mark.parametrize("name", ["lock_timeout", "idle_session_timeout", "transaction_timeout"])
async def test_a_time_limit_of_the_database_is_not_ours(
    database_url: str, preset: Preset, observer: Raw, name: str
) -> None:
    if await observer.fetchval("select current_setting($1, true)", name) is None:
        pytest.skip(f"this server has no {name}")
    await preset(name, "1h")
    store = await open_parts(database_url)
    try:
        assert await show(store, name) == {"0"}
    finally:
        await store.close()


async def test_a_statement_has_the_time_that_the_settings_give_it(database_url: str, presets: None) -> None:
    database = Database(database_url, "leasehold", statement_timeout=7)
    try:
        async with database.connection() as connection:
            assert await connection.fetchval("show statement_timeout") == "7s"
    finally:
        await database.close()


async def test_a_migration_may_take_as_long_as_it_likes(database_url: str, presets: None) -> None:
    connection = await Database(database_url, "leasehold").connect_within(None)
    try:
        assert await connection.fetchval("show statement_timeout") == "0"
    finally:
        await connection.close()


async def test_presets_do_not_reach_through_a_pooler(pooled_url: str) -> None:
    database = Database(pooled_url, "leasehold")
    connection = await database.connect()
    try:
        async with database.transaction(connection):
            found = await connection.fetchrow(
                """
                select current_setting('transaction_isolation'), current_setting('lock_timeout'),
                       current_setting('statement_timeout')
                """
            )
        assert found is not None
        assert tuple(found) == ("read committed", "0", "30s")
    finally:
        await connection.close()


async def test_cancels_at_once_succeed_where_serializable_is_preset(database_url: str, presets: None) -> None:
    store = await open_parts(database_url)
    try:
        await store.sync_definitions([Definition("report")])
        placed = await store.tenant(ACME).enqueue([NewJob(definition="report") for _ in range(40)])
        answers = await asyncio.gather(*(store.tenant(ACME).cancel([each.id]) for each in placed))
        assert {answer for each in answers for answer in each.values()} == {CancelAnswer.CANCELED}
    finally:
        await store.close()


async def test_a_producer_leaves_a_server_that_can_not_write(store: Store, preset: Preset, observer: Raw) -> None:
    await store.sync_definitions([Definition("report")])
    await _begun_again_as(store, observer, preset, "on")
    with pytest.raises(Unreachable):
        await store.tenant(ACME).enqueue([NewJob(definition="report")])
    await preset("default_transaction_read_only", "off")
    assert await store.tenant(ACME).enqueue([NewJob(definition="report")])


async def test_a_worker_leaves_a_server_that_can_not_write(store: Store, preset: Preset, observer: Raw) -> None:
    await store.sync_definitions([Definition("report")])
    await store.tenant(ACME).enqueue([NewJob(definition="report")])
    registration = await store.join(Subscription(("report",)), WorkerFacts("host", 1), HOUR)
    await _begun_again_as(store, observer, preset, "on")
    for ask in (
        lambda: store.claim(registration, 1),
        lambda: store.renew(registration, [], HOUR),
        lambda: store.evict(1),
    ):
        with pytest.raises(Unreachable):
            await ask()
    await preset("default_transaction_read_only", "off")
    assert (await store.renew(registration, [], HOUR)).alive
    assert len((await store.claim(registration, 1)).claims) == 1


async def test_a_server_that_can_not_write_costs_a_pool_one_call(store: Store, preset: Preset, observer: Raw) -> None:
    """Also if the pool has many connections to it."""
    await store.sync_definitions([Definition("report")])
    await _begun_again_as(store, observer, preset, "on")
    async with parts_of(store).database.connection(), parts_of(store).database.connection():
        pass
    with pytest.raises(Unreachable):
        await store.tenant(ACME).enqueue([NewJob(definition="report")])
    await preset("default_transaction_read_only", "off")
    await asyncio.gather(*(store.tenant(ACME).enqueue([NewJob(definition="report")]) for _ in range(4)))


async def _begun_again_as(store: Store, observer: Raw, preset: Preset, value: str) -> None:
    """From now on every session of this store is one of a server that can't write, or can."""
    await preset("default_transaction_read_only", value)
    engine = parts_of(store)
    for part in (engine.links.claim, engine.links.finish, engine.links.heartbeat):
        await part.close()
    async with engine.database.connection() as connection:
        connection.terminate()


async def test_a_statement_that_is_canceled_can_be_tried_again(
    store: Store, connections: Connections, observer: Raw
) -> None:
    await store.sync_definitions([Definition("report")])
    (placed,) = await store.tenant(ACME).enqueue([NewJob(definition="report")])
    holder = await connections.open()
    async with holder.transaction():
        await holder.execute("select from leasehold.jobs for update")
        canceling = asyncio.create_task(store.tenant(ACME).cancel([placed.id]))
        await blocked(observer)
        await observer.execute(
            "select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() "
            "and wait_event_type = 'Lock'"
        )
        with pytest.raises(Unreachable, match=r"did not answer in time .*wholly or not at all") as raised:
            await canceling
        assert raised.value.too_slow
    assert (await store.tenant(ACME).cancel([placed.id]))[placed.id] is CancelAnswer.CANCELED


async def test_a_lock_that_is_not_to_be_had_means_try_again(store: Store) -> None:
    with pytest.raises(Unreachable), parts_of(store).database.translate_errors():
        raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")


@pytest.mark.parametrize(
    ("url", "chosen"),
    [
        ("postgresql://u@one:5432,two:5433/db", "read-write"),
        ("postgresql://u@/db?host=one,two", "read-write"),
        ("postgresql://u@one,two/db?target_session_attrs=any", None),
        ("postgresql://u@one/db", None),
    ],
)
def test_the_host_that_writes_is_chosen(url: str, chosen: str | None) -> None:
    assert Database(url, "leasehold").url == url
    assert options_for(url, {}, pooled=False, limit=None).get("target_session_attrs") == chosen

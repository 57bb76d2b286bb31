"""A migration whose lock another session holds: producers pass, the migration tries again and names the holder."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.conftest import Raw, eventually
from tests.postgres.race_tools import Connections, task
from tests.postgres.roles import SCHEMA, Roles
from tests.store.bench import Bench

from leasehold.engines.postgres import locks, migrate
from leasehold.engines.postgres.migrate import Migration, migrations
from leasehold.errors import SchemaMismatch

NEXT = Migration(
    migrations("leasehold")[-1].version + 1, "column", 1, "alter table leasehold.jobs add column extra int"
)


@pytest.fixture
def next_migration(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """This release has one migration more, which needs a lock on jobs. It waits for it only for a moment."""
    known = [*migrations("leasehold"), NEXT]
    monkeypatch.setattr(migrate, "migrations", lambda _schema: known)
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrate, "LONGEST_PAUSE", 0.05)


@pytest.fixture
async def holder(next_migration: None, connections: Connections) -> AsyncIterator[Raw]:
    """A forgotten transaction that has read from jobs."""
    connection = await connections.open(application_name="forgotten")
    await connection.execute("begin")
    await connection.execute("select count(*) from leasehold.jobs")
    yield connection
    await connection.execute("rollback")


async def test_producers_pass_while_a_migration_waits(bench: Bench, holder: Raw, database_url: str) -> None:
    told: list[str] = []
    async with task(migrate.migrate(database_url, "leasehold", told.append)) as migrating:
        await eventually(lambda: _is_true(bool(told)), what="the first refused lock")
        async with asyncio.timeout(30):
            for _ in range(5):
                await bench.enqueue()
        assert holder.is_in_transaction()
        await holder.execute("rollback")
        assert [migration.title for migration in await migrating] == [NEXT.title]
    assert f"pid {holder.get_server_pid()} (forgotten, " in told[0]


async def test_a_migration_that_gives_up_names_who_holds_the_lock(
    holder: Raw, database_url: str, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "TRIES", 2)
    with pytest.raises(SchemaMismatch, match=f"LH-2003: .*pid {holder.get_server_pid()} .*nothing of it was kept"):
        await migrate.migrate(database_url)
    assert await observer.fetchval("select max(version) from leasehold.migrations") == NEXT.version - 1


async def test_a_script_and_a_step_wait_for_no_lock_for_long() -> None:
    script = migrate.script()
    assert 0 < script.index("set local lock_timeout") < script.index("pg_advisory_xact_lock")
    assert all("set local lock_timeout" in step.lock_limit for step in migrate.steps())


# The lock under which migrations run one at a time


@pytest.fixture
async def stranger(next_migration: None, connections: Connections) -> Raw:
    """Holds the lock of migrations, as any role that may connect can."""
    connection = await connections.open(application_name="stranger")
    await connection.execute("select pg_advisory_lock(hashtextextended('leasehold:migrate', 0))")
    return connection


async def test_a_waiting_migration_names_the_session_that_has_the_turn(stranger: Raw, database_url: str) -> None:
    told: list[str] = []
    async with task(migrate.migrate(database_url, "leasehold", told.append)) as migrating:
        await eventually(lambda: _is_true(bool(told)), what="the first refused lock")
        await stranger.execute("select pg_advisory_unlock_all()")
        assert [migration.title for migration in await migrating] == [NEXT.title]
    assert f"pid {stranger.get_server_pid()} (stranger, role " in told[0]
    assert told[0].endswith("holds the lock of migrations")


async def test_a_migration_whose_turn_never_comes_gives_up(
    stranger: Raw, database_url: str, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "TRIES", 2)
    with pytest.raises(SchemaMismatch, match=f"LH-2003: .*pid {stranger.get_server_pid()} .* lock of migrations"):
        await migrate.migrate(database_url)
    assert await observer.fetchval("select max(version) from leasehold.migrations") == NEXT.version - 1


async def test_a_migration_waits_for_a_turn_taken_between_two(
    next_migration: None, connections: Connections, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, limit_waits, told = await connections.open(), locks.limit_waits, list[str]()
    turn = ["select pg_advisory_lock(hashtextextended('leasehold:migrate', 0))"]

    async def after_the_turn_was_taken(*arguments: Any) -> None:
        """The ledger is there; the first migration begins."""
        if turn:
            await stranger.execute(turn.pop())
        await limit_waits(*arguments)

    monkeypatch.setattr(locks, "limit_waits", after_the_turn_was_taken)
    async with task(migrate.migrate(database_url, "leasehold", told.append)) as migrating:
        await eventually(lambda: _is_true(bool(told)), what="the first refused lock")
        await stranger.execute("select pg_advisory_unlock_all()")
        assert [migration.title for migration in await migrating] == [NEXT.title]


async def test_a_migrator_with_few_rights_learns_the_lock_holders(
    roles: Roles, next_migration: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "TRIES", 1)
    async with roles.connection("reader") as turn, roles.connection("worker") as reading:
        await turn.execute("select pg_advisory_lock(hashtextextended($1, 0))", f"{SCHEMA}:migrate")
        await reading.execute("begin; select count(*) from rented.jobs")
        with pytest.raises(SchemaMismatch) as raised:
            await migrate.migrate(roles.url("migrator"), SCHEMA)
        for holder, role in ((turn, roles.names.reader), (reading, roles.names.worker)):
            assert f"pid {holder.get_server_pid()} (unnamed, role {role})" in raised.value.happened


async def _is_true(value: bool) -> bool:
    return value

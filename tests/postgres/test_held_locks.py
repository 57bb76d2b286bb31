"""Any role that may connect can take our advisory locks. A sync of definitions needs one only if it writes."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, parts_of
from tests.postgres.roles import Roles
from tests.store.bench import EMAIL, REPORT, Bench

from leasehold import Job, Leasehold
from leasehold.engines.postgres import definition_rows, locks
from leasehold.errors import Unreachable
from leasehold.model.definition import Definition

CHANGED = replace(REPORT, max_attempts=9)
TAKE = "select pg_advisory_lock(hashtextextended($1, 0))"


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for a lock ends after a moment."""
    monkeypatch.setattr(locks, "LONGEST_WAIT", "50ms")


@pytest.fixture
async def stranger(bench: Bench, connections: Connections) -> Raw:
    """Holds the lock of the definitions, which are registered."""
    connection = await connections.open(application_name="stranger")
    await connection.execute(TAKE, "leasehold:definitions")
    return connection


async def test_a_sync_without_changes_needs_no_lock(bench: Bench, stranger: Raw) -> None:
    changes = await bench.store.sync_definitions([EMAIL, REPORT])
    assert [(change.key, change.version, change.created) for change in changes] == [
        (EMAIL.key, 1, False),
        (REPORT.key, 1, False),
    ]


async def test_a_sync_without_changes_sends_one_statement(bench: Bench) -> None:
    """Under the lock it was BEGIN, the lock, the definitions, and COMMIT."""
    await bench.store.sync_definitions([REPORT])
    sent: list[str] = []
    async with parts_of(bench.store).database.connection() as connection:
        connection.add_query_logger(lambda record: sent.append(record.query))
    await bench.store.sync_definitions([REPORT])
    await asyncio.sleep(0)  # the driver calls its loggers in the next turn of the loop
    assert len(sent) == 1, sent


@pytest.mark.parametrize("definition", [CHANGED, Definition("new")], ids=["changed", "new"])
async def test_a_sync_that_gets_no_lock_names_the_session_that_holds_it(
    bench: Bench, stranger: Raw, observer: Raw, definition: Definition
) -> None:
    role = await observer.fetchval("select current_user")
    with pytest.raises(Unreachable) as raised:
        await bench.store.sync_definitions([definition, EMAIL])
    assert raised.value.code == "LH-3005"
    assert f"pid {stranger.get_server_pid()} (stranger, role {role})" in raised.value.happened
    assert "Nothing was registered" in raised.value.happened
    assert await observer.fetchval("select count(*) from leasehold.definition_versions") == 2


async def test_a_sync_succeeds_once_the_lock_is_free(bench: Bench, stranger: Raw) -> None:
    with pytest.raises(Unreachable):
        await bench.store.sync_definitions([CHANGED])
    await stranger.execute("select pg_advisory_unlock_all()")
    assert [change.version for change in await bench.store.sync_definitions([CHANGED])] == [2]


async def test_a_sync_that_got_no_lock_looks_again(bench: Bench, stranger: Raw, observer: Raw) -> None:
    """When a fleet starts, another process that had the lock may have written the same."""
    database = parts_of(bench.store).database
    fetch_on = database.fetch_on

    async def another_writes(connection: Any, name: str, /, **values: Any) -> list[Any]:
        if name == "administration/lock_definitions":
            written = definition_rows.columns(CHANGED)
            new = {"version": 2, "base": None, "current": True, "declared": True, **written}
            await fetch_on(observer, "administration/add_version", **new)
        return await fetch_on(connection, name, **values)

    database.fetch_on = another_writes  # type: ignore[method-assign]
    assert [change.version for change in await bench.store.sync_definitions([CHANGED])] == [2]


async def test_only_the_wait_for_the_lock_has_the_short_limit(bench: Bench) -> None:
    """A table that a migration holds for a while is waited for as ever."""
    database = parts_of(bench.store).database
    fetch_on, limits = database.fetch_on, []

    async def noting(connection: Any, name: str, /, **values: Any) -> list[Any]:
        if name == "administration/add_version":
            limits.append(await connection.fetchval("show lock_timeout"))
        return await fetch_on(connection, name, **values)

    database.fetch_on = noting  # type: ignore[method-assign]
    await bench.store.sync_definitions([CHANGED])
    assert limits == ["0"]


async def test_a_prepared_transaction_that_holds_the_lock_is_named(bench: Bench, connections: Connections) -> None:
    holder, name = await connections.open(), f"held-{uuid4().hex}"
    if await holder.fetchval("show max_prepared_transactions") == "0":
        pytest.skip("this server has max_prepared_transactions = 0")
    await holder.execute("begin; select pg_advisory_xact_lock(hashtextextended('leasehold:definitions', 0))")
    await holder.execute(f"prepare transaction '{name}'")
    try:
        with pytest.raises(Unreachable, match=r"by a prepared transaction \(see pg_prepared_xacts\)"):
            await bench.store.sync_definitions([CHANGED])
    finally:
        await holder.execute(f"rollback prepared '{name}'")


# Roles with few rights


def greeting(app: Leasehold, max_attempts: int) -> Leasehold:
    @app.job(max_attempts=max_attempts)
    async def greet(job: Job) -> None: ...

    return app


async def register(roles: Roles, max_attempts: int) -> None:
    app = greeting(roles.app("worker"), max_attempts)
    async with app.open():
        await app.store.sync_definitions(app.handlers.definitions)


async def test_an_older_producer_that_may_only_read_needs_no_lock(roles: Roles) -> None:
    for max_attempts in (1, 2):
        await register(roles, max_attempts)
    older = greeting(roles.app("producer"), 1)
    async with roles.connection("reader") as stranger, older.open():
        await stranger.execute(TAKE, "rented:definitions")
        await older.tenant("acme").aenqueue_key("greet", {})
    assert await roles.superuser.fetchval("select version from rented.jobs") == 1


async def test_a_role_with_few_rights_is_told_which_session_holds_the_lock(roles: Roles) -> None:
    async with roles.connection("reader") as stranger:
        await stranger.execute(TAKE, "rented:definitions")
        with pytest.raises(Unreachable) as raised:
            await register(roles, 1)
        held_by = f"pid {stranger.get_server_pid()} (unnamed, role {roles.names.reader})"
    assert held_by in raised.value.happened

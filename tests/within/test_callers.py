"""Peculiarities of single drivers and verbs, and of callers' settings that stay as they are."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from tests.conftest import Raw

from leasehold import InvalidInput, Leasehold, NewJob, Status, Tenant, TypedDefinition, UnknownJob
from leasehold.errors import InactiveDefinition, UnknownDefinition


async def waiting(acme: Tenant) -> int:
    """Without the one that the fixture left for tomorrow."""
    return (await acme.jobs.acounts(100))[Status.QUEUED] - 1


async def test_each_verb_that_is_awaited_joins_the_transaction(
    observer: Raw, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    async with observer.transaction():
        handle = acme.within(observer)
        await handle.aenqueue(report, number=1)
        await handle.aenqueue_key("report", {"number": 2})
        await handle.aenqueue_many([report.bind(3), report.bind(4)])
        assert await waiting(acme) == 0
    assert await waiting(acme) == 4


async def test_each_verb_that_blocks_joins_the_transaction(
    database_url: str, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    def block() -> None:
        with psycopg.connect(database_url) as connection:
            handle = acme.within(connection)
            handle.enqueue(report, number=1)
            handle.enqueue_key("report", {"number": 2})
            handle.enqueue_many([report.bind(3), report.bind(4)])

    await asyncio.to_thread(block)
    assert await waiting(acme) == 4


async def test_options_count_within_a_transaction(
    observer: Raw, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    async with observer.transaction():
        placed = await (
            acme.options(priority=3, delay="2h", correlation_id="order-7").within(observer).aenqueue(report, 1)
        )
    record = await acme.aget(placed.id)
    assert (record.priority, record.correlation_id, record.due) == (3, "order-7", False)


async def test_a_session_of_a_loops_own_thread_may_block_it(
    database_url: str, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    """It does so anyway, with each statement of the caller's."""
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))
    with Session(engine) as session, session.begin():
        acme.within(session).enqueue(report, number=1)
    engine.dispose()
    assert await waiting(acme) == 1


async def test_rows_of_the_callers_own_making_are_no_matter(database_url: str, acme: Tenant, job: NewJob) -> None:
    connection = await psycopg.AsyncConnection.connect(
        database_url, row_factory=dict_row, cursor_factory=psycopg.AsyncRawCursor
    )
    async with connection:
        (placed,) = await acme.within(connection).aenqueue_many([job])
    assert (await acme.aget(placed.id)).payload == {"number": 7}


async def test_json_codecs_of_the_callers_own_are_no_matter(
    observer: Raw, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    for name in ("json", "jsonb"):
        await observer.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    async with observer.transaction():
        placed = await acme.within(observer).aenqueue(report, number=7)
    assert (await acme.aget(placed.id)).payload == {"number": 7}


async def test_a_new_tenant_makes_nobody_wait_for_the_callers_commit(
    observer: Raw, app: Leasehold, report: TypedDefinition[..., Any]
) -> None:
    brand_new = app.tenant("brand-new")
    async with observer.transaction():
        await brand_new.within(observer).aenqueue(report, number=1)
        await brand_new.aenqueue(report, number=2)
        assert (await brand_new.jobs.acounts(10))[Status.QUEUED] == 1


async def test_an_inactive_definition_refuses_and_the_transaction_goes_on(
    observer: Raw, app: Leasehold, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    await app.store.activate("report", False)
    async with observer.transaction():
        with pytest.raises(InactiveDefinition, match="leasehold definitions activate report"):
            await acme.within(observer).aenqueue(report, number=1)
        assert await observer.fetchval("select 1") == 1


async def test_a_definition_that_nobody_registered_is_named(observer: Raw, acme: Tenant) -> None:
    async with observer.transaction():
        with pytest.raises(UnknownDefinition, match=r'no definition has the key "reprt". Did you mean "report"\?'):
            await acme.within(observer).aenqueue_key("reprt", {})


async def test_definitions_of_a_recreated_database_are_registered(
    observer: Raw, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    await observer.execute("delete from leasehold.definition_versions; delete from leasehold.definitions")
    async with observer.transaction():
        placed = await acme.within(observer).aenqueue(report, number=1)
    assert placed.created


async def test_a_closed_connection_says_so_in_its_drivers_words(database_url: str, acme: Tenant, job: NewJob) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.close()
    with pytest.raises(asyncpg.InterfaceError, match="closed"):
        await acme.within(connection, atomic=False).aenqueue_many([job])


async def test_another_kind_of_database_is_refused(acme: Tenant, job: NewJob) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidInput, match="a SQLAlchemy connection to sqlite"):
        acme.within(connection).enqueue_many([job])
    engine.dispose()


async def test_a_class_derived_from_a_drivers_own_is_taken_for_it(
    database_url: str, acme: Tenant, job: NewJob
) -> None:
    class Traced(asyncpg.Connection):
        pass

    connection = await asyncpg.connect(database_url, connection_class=Traced)
    try:
        async with connection.transaction():
            await acme.within(connection).aenqueue_many([job])
    finally:
        await connection.close()
    assert await waiting(acme) == 1


async def test_an_uncommitted_job_can_not_be_read(
    observer: Raw, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    async with observer.transaction():
        handle = acme.within(observer)
        placed = await handle.aenqueue(report, number=1)
        with pytest.raises(UnknownJob):
            await handle.aget(placed.id)


NOTHING_MORE = """
import asyncio, sys
import {library}
from leasehold import Job, Leasehold

app = Leasehold({url!r})

@app.job
def report(job: Job) -> None: ...

{use}
app.close()
others = {{"asyncpg", "psycopg", "sqlalchemy", "django"}} - {{"asyncpg", {library!r}}}
print(sorted(others & sys.modules.keys()))
"""
USES = {
    "asyncpg": """
async def main():
    connection = await asyncpg.connect({url!r})
    async with connection.transaction():
        await app.tenant("acme").within(connection).aenqueue(report)
    await connection.close()
asyncio.run(main())
""",
    "psycopg": """
with psycopg.connect({url!r}) as connection:
    app.tenant("acme").within(connection).enqueue(report)
""",
}


@pytest.mark.parametrize("library", USES)
def test_no_library_is_imported_but_the_callers(database_url: str, library: str) -> None:
    code = NOTHING_MORE.format(library=library, url=database_url, use=USES[library].format(url=database_url))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


async def test_a_tenant_added_by_the_own_transaction_is_not_awaited(
    observer: Raw, app: Leasehold, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    """As when a trigger of the caller's enqueues by SQL: its row is uncommitted, and we would wait for our caller."""
    async with observer.transaction():
        await observer.execute("""select leasehold.enqueue('brandnew', 'report', '{"number": 1}')""")
        placed = await app.tenant("brandnew").within(observer).aenqueue(report, number=2)
    assert (await app.tenant("brandnew").aget(placed.id)).payload["number"] == 2
    assert await observer.fetchval("select count(*) from leasehold.tenants where id = 'brandnew'") == 1


async def test_a_new_tenants_first_job_may_be_enqueued_in_an_older_snapshot(
    observer: Raw, app: Leasehold, acme: Tenant, report: TypedDefinition[..., Any]
) -> None:
    async with observer.transaction(isolation="repeatable_read"):
        await observer.fetchval("select count(*) from leasehold.tenants")
        placed = await app.tenant("brandnew").within(observer).aenqueue(report, number=1)
    assert (await app.tenant("brandnew").aget(placed.id)).payload["number"] == 1

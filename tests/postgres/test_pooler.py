"""A pooler in transaction mode between every part of the engine and its database, by a real pgbouncer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.lossy_proxies import through_a_pooler
from tests.proxy import Proxy

from leasehold.engines import engine_for
from leasehold.engines.postgres.connections import DIRECT_SESSION
from leasehold.engines.postgres.database import ONE_PLAN
from leasehold.engines.postgres.doctor import examine
from leasehold.engines.postgres.migrate import migrate, schema_status
from leasehold.engines.postgres.store import PostgresStore
from leasehold.engines.postgres.test_databases import DatabaseClock
from leasehold.errors import CannotListen
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.store import CancelAnswer, Store, Subscription, Wake, WorkerFacts

ACME = tenant_id("acme")
HOUR = timedelta(hours=1)
PREPARED = "select name, statement from pg_prepared_statements where name <> ''"


@pytest.fixture
async def pooled_url(database_url: str) -> AsyncIterator[str]:
    """Leads to the test's database through a pgbouncer that has one session for all of its clients."""
    async with through_a_pooler(database_url, size=1) as url:
        yield url


async def the_schema_is_migrated(url: str) -> None:
    await migrate(url, "another")


async def the_schema_is_checked(url: str) -> None:
    (await schema_status(url)).require_usable()


async def the_doctor_looks(url: str) -> None:
    assert [finding async for finding in examine(url, "leasehold")]


async def a_clock_is_read(url: str) -> None:
    await DatabaseClock(url).now()


async def a_job_goes_all_the_way(url: str) -> None:
    store = await engine_for(url).open()
    try:
        await store.sync_definitions([Definition("report")])
        (placed,) = await store.tenant(ACME).enqueue([NewJob(definition="report")])
        registration = await store.join(Subscription(("report",)), WorkerFacts("host", 1), HOUR)
        (claim,) = (await store.claim(registration, 1)).claims
        assert claim.job == placed.id
        transaction = store.transaction(claim, None)
        await transaction.begin()
        assert await transaction.finish("{}") == "finished"
        await transaction.commit()
        assert await store.tenant(ACME).wait_until_final(placed.id, HOUR) is not None
    finally:
        await store.close()


async def a_schedule_fires(url: str) -> None:
    store = await engine_for(url).open()
    try:
        await store.sync_definitions([Definition("report")])
        rule = NewTrigger(label="hourly", definition="report", schedule=Every("1h"))
        await store.triggers(ACME).add(rule)
        await DatabaseClock(url).move(HOUR)
        assert [(await store.schedules.fire_due()).fired for _ in range(2)] == [1, 0]
    finally:
        await store.close()


@pytest.mark.parametrize(
    "use",
    [
        the_schema_is_migrated,
        the_schema_is_checked,
        the_doctor_looks,
        a_clock_is_read,
        a_job_goes_all_the_way,
        a_schedule_fires,
    ],
)
async def test_nothing_is_prepared_in_the_session_of_a_pooler(
    pooled_url: str, use: Callable[[str], Awaitable[None]]
) -> None:
    """The next process would find its own statements' names taken."""
    await use(pooled_url)
    assert await _prepared(pooled_url) == []


async def test_a_pooler_that_accepts_unknown_settings_is_found_out(database_url: str) -> None:
    ignores = sorted({*DIRECT_SESSION, *ONE_PLAN, "synchronous_commit", "transaction_timeout"})
    async with through_a_pooler(database_url, size=1, ignores=ignores) as url:
        await a_job_goes_all_the_way(url)
        assert await _prepared(url) == []


async def test_a_cancel_through_a_pooler_is_answered(pooled_url: str) -> None:
    store = await engine_for(pooled_url).open()
    try:
        await store.sync_definitions([Definition("report")])
        (placed,) = await store.tenant(ACME).enqueue([NewJob(definition="report")])
        assert await store.tenant(ACME).cancel([placed.id]) == {JobId(placed.id): CancelAnswer.CANCELED}
    finally:
        await store.close()


async def test_a_direct_url_for_the_listener_brings_wakes_past_a_pooler(
    pooled_url: str, database_url: str, store: Store
) -> None:
    pooled = await engine_for(pooled_url, listen_url=database_url).open()
    try:
        await _hears_of_work(pooled)
    finally:
        await pooled.close()


async def test_a_listener_url_of_another_database_is_not_trusted(
    pooled_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.engines.postgres.listen.PROBE_LIMIT", 0.0)
    elsewhere = urlsplit(database_url)._replace(path="/postgres").geturl()
    pooled = await engine_for(pooled_url, listen_url=elsewhere).open()
    try:
        with pytest.raises(CannotListen):
            await _hears_of_work(pooled)
    finally:
        await pooled.close()


async def test_a_slow_link_is_not_taken_for_a_pooler(
    database_url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.engines.postgres.listen.PROBE_LIMIT", 0.0)
    async with Proxy(database_url).open() as proxy:
        proxy.delay = 0.02
        slow = await engine_for(proxy.url).open()
        try:
            await _hears_of_work(slow)
        finally:
            proxy.delay = 0
            await slow.close()


async def _hears_of_work(store: Store) -> None:
    assert isinstance(store, PostgresStore)
    registration = await store.join(Subscription(("report",)), WorkerFacts("host", 1), HOUR)
    async with aclosing(store.wakes(registration)) as wakes:
        assert await anext(wakes) is Wake.WORK


async def _prepared(url: str) -> list[str]:
    """Settings that earlier clients left in the one session of this pooler."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        async with connection.transaction():
            return [row["statement"] for row in await connection.fetch(PREPARED)]
    finally:
        await connection.close()

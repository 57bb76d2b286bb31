"""A tenant's row is added at its first use, in any transaction. Other producers don't wait for that transaction."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, parts_of
from tests.store.bench import Bench, keyed

from leasehold.model.job import NewJob, TenantId, tenant_id
from leasehold.store import Store

NEW = tenant_id("newcomer")
PLAIN = NewJob(definition="report")


@pytest.fixture
async def creator(bench: Bench, connections: Connections) -> AsyncIterator[Raw]:
    """A connection whose open transaction has added the tenant's row."""
    connection = await connections.open()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select leasehold.enqueue($1, 'report')", NEW)
    yield connection
    if connection.is_in_transaction():
        await transaction.rollback()


@pytest.mark.parametrize("job", [PLAIN, NewJob(definition="report", dedupe=keyed())], ids=["plain", "keyed"])
async def test_an_enqueue_does_not_wait_for_the_creator_of_its_tenant(
    bench: Bench, creator: Raw, job: NewJob
) -> None:
    async with asyncio.timeout(30):
        (placed,) = await bench.store.tenant(NEW).enqueue([job])
    assert placed.created
    assert creator.is_in_transaction()


async def test_an_enqueue_within_a_transaction_does_not_wait_for_it(
    bench: Bench, creator: Raw, connections: Connections
) -> None:
    caller = await connections.open(lock_timeout="7s")
    async with asyncio.timeout(30), caller.transaction():
        (placed,) = await bench.store.tenant(NEW).enqueue([PLAIN], within=caller)
        assert await caller.fetchval("show lock_timeout") == "7s"
    assert placed.created


async def test_many_enqueues_look_once_for_a_row_that_is_held(
    bench: Bench, creator: Raw, looks: Counter[str]
) -> None:
    for _ in range(20):
        await bench.store.tenant(NEW).enqueue([PLAIN])
    assert looks["tenant/ensure_tenant"] == 1


async def test_a_row_whose_creator_rolled_back_is_added_later(bench: Bench, creator: Raw, observer: Raw) -> None:
    now = 0.0
    parts_of(bench.store).monotonic = lambda: now
    await bench.store.tenant(NEW).enqueue([PLAIN])
    await creator.execute("rollback")
    assert not await _has_row(observer, NEW)
    now = 10.0
    await bench.store.tenant(NEW).enqueue([PLAIN])
    assert await _has_row(observer, NEW)


@pytest.fixture
def looks(store: Store, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the statements that the store sends by its pool, by name."""
    database, counts = parts_of(store).database, Counter[str]()
    fetch = database.fetch

    async def counted(name: str, /, **values: Any) -> list[asyncpg.Record]:
        counts[name] += 1
        return await fetch(name, **values)

    monkeypatch.setattr(database, "fetch", counted)
    return counts


async def _has_row(observer: Raw, tenant: TenantId) -> bool:
    return bool(await observer.fetchval("select exists (select from leasehold.tenants where id = $1)", tenant))

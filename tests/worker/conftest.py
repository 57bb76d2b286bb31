"""Fixtures for tests with workers, in this process or in processes of their own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Engine, create_engine
from tests.conftest import Raw
from tests.tenant_kit import ACME
from tests.worker.far_worker import TASK, Seen
from tests.worker.isolated_kit import Isolated
from tests.worker.shop import Processes, Shop, all_heartbeats_end

from leasehold.store import Store, TenantJobs


@pytest.fixture
async def shop(database_url: str, store: Store, observer: Raw) -> AsyncIterator[Shop]:
    with all_heartbeats_end():
        yield Shop(database_url, store, observer)


@pytest.fixture
async def processes(database_url: str, tmp_path: Path) -> AsyncIterator[Processes]:
    """Worker processes on this test's database. All are ended with the test; one that they left behind fails it."""
    started = Processes(database_url, tmp_path)
    yield started
    await started.clear_up()


@pytest.fixture
def isolated(shop: Shop, tmp_path: Path) -> Isolated:
    return Isolated(shop, tmp_path)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def acme(store: Store) -> TenantJobs:
    await store.sync_definitions([TASK])
    return store.tenant(ACME)


@pytest.fixture
async def ask(database_url: str) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """One value, asked of the database itself, past the proxy."""
    connection = await asyncpg.connect(database_url)
    yield connection.fetchval
    await connection.close()


@pytest.fixture
async def effects_table(observer: Raw) -> None:
    """The table that handlers write their effects into."""
    await observer.execute("create table public.effects (job text not null, attempt text not null)")


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    yield engine
    engine.dispose()

"""Fixtures for tests that need more than the seam: further stores, raw connections, the gate."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from tests.cli.terminal import CommandLine
from tests.conftest import Clock, Raw
from tests.postgres.race_tools import GATED_CLOCK, Connections, Gate
from tests.postgres.roles import Roles, granted_roles
from tests.postgres_parts import StoreInParts, engine_on, open_parts
from tests.store.bench import EMAIL, REPORT, Bench

from leasehold.store import Store


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[StoreInParts]:
    """An open store on this test's database; the test has its parts in hand."""
    opened = await open_parts(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def open_stores(database_url: str) -> AsyncIterator[Callable[[int], Awaitable[list[Store]]]]:
    """Further stores on the same data, as other processes have them."""
    async with AsyncExitStack() as stack:

        async def opened(count: int) -> list[Store]:
            stores: list[Store] = [await open_parts(database_url) for _ in range(count)]
            for store in stores:
                stack.push_async_callback(store.close)
            return stores

        yield opened


@pytest.fixture
async def second_store(open_stores: Callable[[int], Awaitable[list[Store]]]) -> Store:
    (store,) = await open_stores(1)
    return store


@pytest.fixture
async def connections(database_url: str) -> AsyncIterator[Connections]:
    async with AsyncExitStack() as stack:
        yield Connections(database_url, stack)


@pytest.fixture
async def gate(connections: Connections) -> Gate:
    connection = await connections.open()
    await connection.execute(GATED_CLOCK)
    return Gate(connection)


@pytest.fixture
async def bench(store: Store, database_url: str, clock: Clock) -> Bench:
    await store.sync_definitions([REPORT, EMAIL])
    return Bench(engine_on(store, database_url, clock))


@pytest.fixture
def leasehold(database_url: str) -> CommandLine:
    """Commands that are typed at this test's database."""
    return CommandLine(database_url)


@pytest.fixture
async def roles(database_url: str, observer: Raw, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Roles]:
    """Roles with few rights. The test fails if a worker's task that lacks a right says so in the log."""
    async with granted_roles(database_url, observer) as made:
        yield made
        said = [f"{record.getMessage()} {record.exc_info}" for record in caplog.get_records("call")]
        assert [text for text in said if "permission denied" in text] == []

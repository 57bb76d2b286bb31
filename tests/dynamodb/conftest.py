"""Fixtures for tests of the DynamoDB engine: a table, a look at its items, and faults on the way to it."""

from collections.abc import AsyncIterator

import pytest
from tests.dynamodb.raw_table import RawTable, open_table
from tests.emulated_tables import tables_at
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest

from leasehold.engine import ClonedDatabases, MovableClock
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.store import Store


@pytest.fixture(scope="session")
def databases(dynamodb_url: str) -> ClonedDatabases:
    return tables_at(dynamodb_url)


@pytest.fixture
async def database_url(databases: ClonedDatabases) -> AsyncIterator[str]:
    """The URL of a table as it is by default, with four shards."""
    name = await databases.clone()
    yield databases.url_for(name)
    await databases.drop(name)


@pytest.fixture
def kit(database_url: str) -> DynamoTestKit:
    return DynamoEngine(database_url).test_kit()


@pytest.fixture
def clock(kit: DynamoTestKit) -> MovableClock:
    return kit.clock()


@pytest.fixture
async def store(kit: DynamoTestKit) -> AsyncIterator[Store]:
    opened = await kit.open()
    await opened.sync_definitions([REPORT, EMAIL])
    yield opened
    await opened.close()


@pytest.fixture
def engine(store: Store, kit: DynamoTestKit) -> EngineUnderTest:
    return EngineUnderTest(store, kit.open, kit.clock().move)


@pytest.fixture
def bench(engine: EngineUnderTest) -> Bench:
    return Bench(engine)


@pytest.fixture
async def table(database_url: str) -> AsyncIterator[RawTable]:
    """The items of this test's table, as another program sees them."""
    async with open_table(database_url) as opened:
        yield opened

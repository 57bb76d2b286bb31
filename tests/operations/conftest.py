"""Fixtures for operations: a store of each engine with the definitions report, email and order."""

from collections.abc import AsyncIterator

import pytest
from tests.cli.conftest import ORDER
from tests.engines_under_test import SERVERS, choose_engines
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest

from leasehold.engine import ClonedDatabases, TestKit
from leasehold.engines import engine_for
from leasehold.store import Store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_engines(metafunc)


@pytest.fixture(scope="session")
def databases(engine_name: str, request: pytest.FixtureRequest) -> ClonedDatabases:
    found: ClonedDatabases = request.getfixturevalue(SERVERS[engine_name])
    return found


@pytest.fixture
async def database_url(databases: ClonedDatabases) -> AsyncIterator[str]:
    name = await databases.clone()
    yield databases.url_for(name)
    await databases.drop(name)


@pytest.fixture
def kit(database_url: str) -> TestKit:
    return engine_for(database_url).test_kit()


@pytest.fixture
async def store(kit: TestKit) -> AsyncIterator[Store]:
    opened = await kit.open()
    yield opened
    await opened.close()


@pytest.fixture
async def bench(store: Store, kit: TestKit) -> Bench:
    await store.sync_definitions([REPORT, EMAIL, ORDER])
    return Bench(EngineUnderTest(store, kit.open, kit.clock().move))

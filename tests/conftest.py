"""A real database for every test.

One server for the whole run (`LEASEHOLD_TEST_URL`, else an embedded Postgres that all xdist workers share), one
template database with the schema, and a clone of it for each test that asks:

    database_url   the URL of a fresh database that has the schema; dropped afterwards
    store          an open store on it; closed afterwards
    clock          `await clock.move(timedelta)` moves that database's clock, which is the engine's only one
    observer       a connection that only looks
    proxy          a way to the database that a test can cut

A test that leaves a connection behind fails. Tests never sleep: they move the clock, wait for an event, or ask
`await eventually(condition)`, which is imported: `from tests.conftest import eventually`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.proxy import Proxy

from leasehold.engines import engine_for
from leasehold.engines.postgres.test_databases import CLOSING, DatabaseClock, TemplateDatabases
from leasehold.store import Store
from leasehold.testing.server import databases

# An installed package registers the plugin; loading it twice would be an error.
OURS = [] if entry_points(group="pytest11", name="leasehold") else ["leasehold.testing.plugin"]
pytest_plugins = ["pytester", *OURS]

if TYPE_CHECKING:
    Raw = asyncpg.Connection[asyncpg.Record]
else:
    Raw = asyncpg.Connection
PATIENCE = timedelta(seconds=30)
Clock = DatabaseClock


class DatabaseServer(TemplateDatabases):
    """Fails a test that leaves a connection open."""

    async def drop(self, name: str, patience: timedelta = CLOSING) -> list[str]:
        if left := await super().drop(name, patience):
            pytest.fail(f"{len(left)} connection(s) left behind: {'; '.join(left)}")
        return left


async def eventually(
    condition: Callable[[], Awaitable[bool]], within: timedelta = PATIENCE, what: str = "the condition"
) -> None:
    """Returns as soon as `condition` holds. The deadline is a guard against hanging, never a measure of speed."""
    deadline = time.monotonic() + within.total_seconds()
    while not await condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {within.total_seconds():g} s")
        await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseServer]:
    """The run's server, with its template database."""
    with databases() as found:
        assert isinstance(found, TemplateDatabases)
        server = DatabaseServer(found.url, found.run, found.schema, found.url_of)
        asyncio.run(server.make_template())
        yield server


@pytest.fixture
async def database_url(database_server: DatabaseServer) -> AsyncIterator[str]:
    """The URL of a fresh database with the schema and a movable clock. A test that leaves a connection open fails."""
    name = await database_server.clone()
    yield database_server.url_for(name)
    await database_server.drop(name)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An open store on this test's database."""
    opened = await engine_for(database_url).open()
    yield opened
    await opened.close()


@pytest.fixture
def clock(database_url: str) -> Clock:
    """`await clock.move(timedelta(hours=1))` moves the clock of this test's database, and so of its store."""
    return Clock(database_url)


@pytest.fixture
async def observer(database_url: str) -> AsyncIterator[Raw]:
    """A connection that only looks."""
    connection: Raw = await asyncpg.connect(database_url, server_settings={"application_name": "test"})
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """A way to this test's database that the test can cut, delay or heal."""
    async with Proxy(database_url).open() as opened:
        yield opened

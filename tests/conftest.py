"""A real database for every test.

One server for the whole run (`LEASEHOLD_TEST_URL`, else an embedded Postgres that all xdist workers share), one
template database with the schema, and a clone of it for each test that asks:

    database_url   the URL of a fresh database that has the schema; dropped afterwards
    store          an open store on it; closed afterwards
    clock          `await clock.move(timedelta)` moves that database's clock, which is the engine's only one

A test that leaves a connection behind fails. Tests never sleep: they move the clock, wait for an event, or ask
`await eventually(condition)`, which is imported: `from tests.conftest import eventually`.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from leasehold import embedded
from leasehold.engines import open_store
from leasehold.engines.postgres.migrate import migrate
from leasehold.store import Store

PATIENCE = timedelta(seconds=30)
CLOSING = timedelta(seconds=5)

SERVER_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "on",
}

MOVABLE_CLOCK = """
    create table leasehold.test_clock (moved interval not null);
    insert into leasehold.test_clock values (interval '0');
    create or replace function leasehold.clock() returns timestamptz language sql volatile
    as $$ select clock_timestamp() + (select moved from leasehold.test_clock) $$;
"""


async def eventually(
    condition: Callable[[], Awaitable[bool]], within: timedelta = PATIENCE, what: str = "the condition"
) -> None:
    """Returns as soon as `condition` holds. The deadline is a guard against hanging, never a measure of speed."""
    deadline = time.monotonic() + within.total_seconds()
    while not await condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {within.total_seconds():g} s")
        await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Clock:
    """The clock of one test's database."""

    url: str

    async def move(self, by: timedelta) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("update leasehold.test_clock set moved = moved + $1", by)
        finally:
            await connection.close()


@dataclass(frozen=True)
class DatabaseServer:
    """The run's server. `run` tells its databases from those of other runs on the same server."""

    url_for: Callable[[str], str]
    run: str

    @property
    def template(self) -> str:
        return f"leasehold_test_{self.run}_template"

    async def make_template(self) -> None:
        """Made once, by whichever process comes first; it is ready when it says that it is a template."""
        admin = await self._admin()
        try:
            await admin.execute("select pg_advisory_lock(hashtext($1))", self.template)
            if await admin.fetchval("select datistemplate from pg_database where datname = $1", self.template):
                return
            await admin.execute(f'drop database if exists "{self.template}"')
            await admin.execute(f'create database "{self.template}"')
            await self._fill(self.url_for(self.template))
            await admin.execute(f'alter database "{self.template}" with is_template true allow_connections false')
        finally:
            await admin.close()

    async def drop_template(self) -> None:
        admin = await self._admin()
        try:
            if await admin.fetchval("select datistemplate from pg_database where datname = $1", self.template):
                await admin.execute(f'alter database "{self.template}" with is_template false')
            await admin.execute(f'drop database if exists "{self.template}" with (force)')
        finally:
            await admin.close()

    async def clone(self) -> str:
        """A fresh database; its name."""
        name = f"leasehold_test_{self.run}_{uuid4().hex[:12]}"
        admin = await self._admin()
        try:
            # Since 15 the default strategy writes the whole copy to the WAL; copying the files is faster.
            copy = " strategy file_copy" if admin.get_server_version().major >= 15 else ""
            await admin.execute(f'create database "{name}" template "{self.template}"{copy}')
        finally:
            await admin.close()
        return name

    async def drop(self, name: str) -> None:
        """Fails if somebody is still connected, after a moment for connections that are just closing."""
        admin = await self._admin()
        try:
            left = await self._connections(admin, name)
            deadline = time.monotonic() + CLOSING.total_seconds()
            while left and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
                left = await self._connections(admin, name)
            await admin.execute(f'drop database if exists "{name}" with (force)')
        finally:
            await admin.close()
        if left:
            pytest.fail(f"{len(left)} connection(s) left behind: {'; '.join(left)}")

    async def _admin(self) -> "asyncpg.Connection[asyncpg.Record]":
        return await asyncpg.connect(self.url_for("postgres"))

    async def _fill(self, url: str) -> None:
        await migrate(url, schema="leasehold")
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(MOVABLE_CLOCK)
        finally:
            await connection.close()

    async def _connections(self, admin: "asyncpg.Connection[asyncpg.Record]", name: str) -> list[str]:
        rows = await admin.fetch(
            """
            select format('%s, %s, last said: %s', coalesce(nullif(application_name, ''), 'unnamed'), state, query)
            from pg_stat_activity where datname = $1 and backend_type = 'client backend'
            """,
            name,
        )
        return [str(row[0]) for row in rows]


def pytest_configure(config: pytest.Config) -> None:
    """The first process of a run names it; xdist's workers inherit the name and so find the same server."""
    if not hasattr(config, "workerinput"):
        os.environ["LEASEHOLD_TEST_RUN"] = uuid4().hex[:8]
        os.environ["LEASEHOLD_TEST_HOME"] = str(_roomy_folder() / f"leasehold-test-{_run()}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The first process clears up after all of them."""
    if hasattr(config, "workerinput"):
        return
    if url := os.environ.get("LEASEHOLD_TEST_URL"):
        asyncio.run(_given(url).drop_template())
    elif _home().exists():
        _wait_until_stopped(_home())
        shutil.rmtree(_home(), ignore_errors=True)


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseServer]:
    """The run's server, with its template database."""
    if url := os.environ.get("LEASEHOLD_TEST_URL"):
        server = _given(url)
        asyncio.run(server.make_template())
        yield server
        return
    with embedded.postgres(_home(), settings=SERVER_SETTINGS) as running:
        server = DatabaseServer(running.url_for, _run())
        asyncio.run(server.make_template())
        yield server


@pytest.fixture
async def database_url(database_server: DatabaseServer) -> AsyncIterator[str]:
    """The URL of a fresh database with the schema and a movable clock. Whoever leaves a connection to it fails."""
    name = await database_server.clone()
    yield database_server.url_for(name)
    await database_server.drop(name)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An open store on this test's database."""
    opened = await open_store(database_url, schema="leasehold")
    yield opened
    await opened.close()


@pytest.fixture
def clock(database_url: str) -> Clock:
    """`await clock.move(timedelta(hours=1))` moves the clock of this test's database, and so of its store."""
    return Clock(database_url)


def _given(url: str) -> DatabaseServer:
    return DatabaseServer(lambda name: urlsplit(url)._replace(path=f"/{name}").geturl(), _run())


def _run() -> str:
    return os.environ["LEASEHOLD_TEST_RUN"]


def _home() -> Path:
    return Path(os.environ["LEASEHOLD_TEST_HOME"])


def _roomy_folder() -> Path:
    """In memory if there is room: a clone takes 13 ms there, and 72 ms on a disk.

    Not pytest's own folder, which is closed to the account that Postgres runs under when we are root.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * 1024**3:
        return memory
    return Path(tempfile.gettempdir())


def _wait_until_stopped(home: Path) -> None:
    """The embedded server stops by itself once nobody uses it; its files can't be removed before."""
    deadline = time.monotonic() + 10
    while any(home.rglob("postmaster.pid")) and time.monotonic() < deadline:
        time.sleep(0.05)

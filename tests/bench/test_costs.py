"""The cost of jobs in statements and commits, which is the same on every machine. `make bench` measures times.

Limits stand a little above what is spent today, where scheduling makes it vary; where nothing varies, they are exact.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.conftest import Raw, eventually
from tests.database_server import DatabaseServer
from tests.worker.shop import SHORT, Shop, only

from leasehold.engines import engine_for
from leasehold.engines.postgres.store import PostgresStore
from leasehold.model.job import NewJob, tenant_id
from leasehold.store import Store
from leasehold.worker import Handlers, Job

TENANTS = [tenant_id(f"tenant-{number}") for number in range(20)]
JOB = NewJob(definition="report", payload={"number": 1, "text": "a few words"})
CALLS = 200
DRAINED = 2000
# Commits of the server itself meanwhile: an autovacuum of every table.
OF_THE_SERVER = 90
# Adds up figures for charts. A worker begins with it at any second of a minute.
ONCE_A_MINUTE = "fleet/roll_up"
# Sessions of the fixtures: the shop's observer and its store's pool.
OWN_SESSIONS = 2

SESSIONS = "select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'"
COMMITS = "select xact_commit from pg_stat_database where datname = $1"


class Meter:
    """Opens stores, and counts by name the statements that go through them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.statements: Counter[str] = Counter()

    async def __call__(self) -> Store:
        store = await engine_for(self._url).open()
        assert isinstance(store, PostgresStore)
        for verb in ("fetch_on", "fetch_planned_on"):
            setattr(store._database, verb, self._counted(getattr(store._database, verb)))
        return store

    def _counted(self, fetch: Any) -> Any:
        async def counted(connection: Any, name: str, /, **values: Any) -> Any:
            self.statements[name] += 1
            return await fetch(connection, name, **values)

        return counted

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        store = await self()
        try:
            yield store
        finally:
            await store.close()


class Commits:
    """Commits in a test's database. Sessions report them when they end, so they are read last."""

    def __init__(self, server: DatabaseServer, url: str) -> None:
        self._database = urlsplit(url).path.removeprefix("/")
        self._elsewhere = server.url_for("postgres")
        self._read = 0

    async def since_last(self, staying: int = 0) -> int:
        """Returns the commits since the last call; `staying` sessions belong to the test itself."""
        connection = await asyncpg.connect(self._elsewhere)
        try:
            await eventually(partial(self._have_left, connection, staying), what="the end of the counted sessions")
            before = self._read
            self._read = await connection.fetchval(COMMITS, self._database)
            return self._read - before
        finally:
            await connection.close()

    async def _have_left(self, connection: Raw, staying: int) -> bool:
        return bool(await connection.fetchval(SESSIONS, self._database) <= staying)


@pytest.fixture
def meter(database_url: str) -> Meter:
    return Meter(database_url)


@pytest.fixture
def commits(database_server: DatabaseServer, database_url: str) -> Commits:
    return Commits(database_server, database_url)


@pytest.fixture
async def handlers(meter: Meter) -> Handlers:
    """A handler that does nothing, its definition registered and all tenants known."""

    async def report(job: Job, payload: dict[str, Any]) -> None: ...

    handlers = only(report)
    async with meter.open() as store:
        await store.sync_definitions(handlers.definitions)
        await enqueue_for_each_tenant(store, 1)
    meter.statements.clear()
    return handlers


async def enqueue_for_each_tenant(store: Store, jobs: int) -> None:
    for tenant in TENANTS:
        await store.tenant(tenant).enqueue([JOB] * jobs)


# Enqueues


async def test_a_job_costs_its_producer_one_statement(meter: Meter, handlers: Handlers) -> None:
    async with meter.open() as store:
        await enqueue_for_each_tenant(store, 1)
        meter.statements.clear()
        for _ in range(10):
            await enqueue_for_each_tenant(store, 1)
    assert meter.statements == {"tenant/enqueue_one": 10 * len(TENANTS)}


async def test_a_call_with_many_jobs_costs_one_statement(meter: Meter, handlers: Handlers) -> None:
    async with meter.open() as store:
        await enqueue_for_each_tenant(store, 1)
        meter.statements.clear()
        await store.tenant(TENANTS[0]).enqueue([JOB] * 200)
    assert meter.statements == {"tenant/enqueue_plain_jobs": 1}


async def test_calls_in_a_transaction_cost_one_statement_each_and_one_wake(
    meter: Meter, commits: Commits, handlers: Handlers
) -> None:
    async with meter.open() as store:
        await enqueue_for_each_tenant(store, 1)
        meter.statements.clear()
        async with store.tenant(TENANTS[0]).bulk_transaction() as bulk:
            for _ in range(10):
                await bulk.enqueue([JOB] * 200)
    assert meter.statements == {"tenant/enqueue_plain_jobs": 10, "tenant/wake": 1}


@pytest.mark.parametrize("jobs", [1, 200], ids=["one job", "many jobs"])
async def test_a_call_costs_one_commit(meter: Meter, commits: Commits, handlers: Handlers, jobs: int) -> None:
    await commits.since_last()
    async with meter.open() as store:
        await enqueue_for_each_tenant(store, 1)
    to_open = await commits.since_last()
    async with meter.open() as store:
        for _ in range(1 + CALLS // len(TENANTS)):
            await enqueue_for_each_tenant(store, jobs)
    for_the_calls = await commits.since_last() - to_open
    assert CALLS <= for_the_calls <= CALLS + OF_THE_SERVER


# Workers


async def test_a_drain_of_hundreds_of_jobs_costs_few_statements(
    shop: Shop, meter: Meter, commits: Commits, handlers: Handlers
) -> None:
    await enqueue_for_each_tenant(shop.store, DRAINED // len(TENANTS))
    await commits.since_last(staying=OWN_SESSIONS)
    async with shop.working(handlers, stores=meter, slots=200) as worker:
        await shop.at_rest(worker)
    assert not await shop.observer.fetchval("select count(*) from leasehold.jobs")
    assert meter.statements.total() <= 0.03 * DRAINED
    assert await commits.since_last(staying=OWN_SESSIONS) <= 0.05 * DRAINED


async def test_a_single_job_costs_an_idle_worker_at_most_seven_statements(
    shop: Shop, meter: Meter, handlers: Handlers
) -> None:
    costs = []
    async with shop.working(handlers, stores=meter) as worker:
        await shop.at_rest(worker)
        for _ in range(10):
            meter.statements.clear()
            await shop.ended(await shop.enqueue())
            await shop.at_rest(worker)
            costs.append(meter.statements.total())
    # A worker that the machine stops between two statements may find its producer in flight, and looks once more.
    assert median(costs) <= 7


async def test_an_idle_worker_sends_its_heartbeat_and_nothing_else(
    shop: Shop, meter: Meter, handlers: Handlers
) -> None:
    async with shop.working(handlers, stores=meter, leases=SHORT) as worker:
        await shop.at_rest(worker)
        meter.statements.clear()

        async def three_heartbeats() -> bool:
            return meter.statements["fleet/renew"] >= 3

        await eventually(three_heartbeats, what="three heartbeats")
        meter.statements.pop(ONCE_A_MINUTE, None)
        assert set(meter.statements) == {"fleet/renew"}

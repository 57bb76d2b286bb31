"""The health of the database in the metrics: each test does something to a database, and compares the gauges."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from tests.conftest import Clock, Raw, eventually
from tests.postgres.crashes import own_server
from tests.postgres.race_tools import Connections
from tests.postgres.test_doctor import hold_a_snapshot
from tests.postgres.test_fleet_snapshot_plan import OLD
from tests.store.bench import Bench
from tests.telemetry.samples import Samples, samples_of
from tests.tenant_kit import HOUR

from leasehold.embedded.binaries import version_of
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.store import Store
from leasehold.telemetry.metrics import Metrics

CONNECTIONS, PAGES = 37, 64
# A server that is idle otherwise: the tests of this process share the other one with those of other processes.
SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_connections": str(CONNECTIONS)}
SMALL_QUEUE = {"max_notify_queue_pages": str(PAGES)}
FIRST_WITH_SMALL_QUEUES = 17
# A page of the queue of notifications has room for one of them.
LARGE_NOTE = "x" * 7900


CHANGE = "update leasehold.jobs set priority = priority where id in (select id from leasehold.jobs limit 30)"


async def measure(store: Store, observer: Raw) -> Samples:
    """Returns the gauges of a measurement of this moment, however short ago the last one was."""
    await observer.execute(OLD)
    found = await store.fleet_snapshot(timedelta())
    assert found is not None
    assert found.database is not None
    return samples_of(Metrics(), found)


@pytest.fixture
def has_small_queue(new_cluster: Path) -> bool:
    return (version_of(new_cluster) or 0) >= FIRST_WITH_SMALL_QUEUES


@pytest.fixture
def own_url(new_cluster: Path, has_small_queue: bool) -> Iterator[str]:
    with own_server(SETTINGS | (SMALL_QUEUE if has_small_queue else {}), new_cluster) as server:
        yield server.url


@pytest.fixture
async def stack(own_url: str) -> AsyncIterator[AsyncExitStack]:
    await migrate(own_url, schema="leasehold")
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def own_connections(own_url: str, stack: AsyncExitStack) -> Connections:
    return Connections(own_url, stack)


@pytest.fixture
async def own_store(own_url: str, stack: AsyncExitStack) -> Store:
    store = await engine_for(own_url).open()
    stack.push_async_callback(store.close)
    return store


async def test_the_age_of_the_oldest_transaction_is_told(
    bench: Bench, observer: Raw, connections: Connections, clock: Clock
) -> None:
    def age(seen: Samples) -> float:
        return seen.total("leasehold_database_oldest_transaction_seconds")

    assert age(await measure(bench.store, observer)) == 0
    before, holder = monotonic(), await connections.open()
    await hold_a_snapshot(holder)
    begun = monotonic()
    await clock.move(HOUR)
    asked = monotonic()
    held = age(await measure(bench.store, observer)) - HOUR.total_seconds()
    assert asked - begun <= held <= monotonic() - before
    await holder.execute("rollback")
    assert age(await measure(bench.store, observer)) == 0


async def test_dead_rows_are_those_that_a_change_has_left(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """A snapshot is held, so that vacuum removes none of them."""

    async def rows() -> tuple[float, float]:
        seen = await measure(bench.store, observer)
        live = seen.total("leasehold_database_live_rows", table="jobs")
        return live, seen.total("leasehold_database_dead_rows", table="jobs")

    async def until(live: int, dead: int) -> None:
        async def is_told() -> bool:
            return await rows() == (live, dead)

        await eventually(is_told, what=f"{live} live and {dead} dead rows in the statistics")

    await observer.execute("alter table leasehold.jobs set (autovacuum_enabled = off)")
    await bench.enqueue_many(100)
    await until(100, 0)
    holder = await connections.open()
    await hold_a_snapshot(holder)
    await observer.execute(CHANGE)
    await observer.execute("select pg_stat_force_next_flush()")
    await until(100, 30)
    await observer.execute("vacuum leasehold.jobs")
    await until(100, 30)
    await holder.execute("rollback")
    await observer.execute("vacuum leasehold.jobs")
    await until(100, 0)


async def test_connections_are_counted_beside_their_maximum(own_store: Store, own_connections: Connections) -> None:
    observer = await own_connections.open()

    async def until(connections: int) -> None:
        """Waits, since a session that was closed may be there for a moment."""

        async def is_told() -> bool:
            seen = await measure(own_store, observer)
            return seen.total("leasehold_database_connections") == connections

        await eventually(is_told, what=f"{connections} connections in the metrics")

    await until(2)
    for _ in range(5):
        await own_connections.open()
    await until(7)
    seen = await measure(own_store, observer)
    assert seen.total("leasehold_database_max_connections") == CONNECTIONS


async def test_notifications_that_no_session_reads_fill_the_queue(
    own_store: Store, own_connections: Connections, has_small_queue: bool
) -> None:
    if not has_small_queue:
        pytest.skip("the queue of this Postgres has always 8 GB, of which a test fills no part that can be told")
    observer, deaf = await own_connections.open(), await own_connections.open()

    async def used_pages() -> float:
        seen = await measure(own_store, observer)
        return PAGES * seen.total("leasehold_database_notification_queue_ratio")

    assert await used_pages() <= 1
    await deaf.execute("listen news")
    await deaf.execute("begin")
    for number in range(20):
        await observer.execute(f"notify news, '{number}{LARGE_NOTE}'")
    assert 19 <= await used_pages() <= 21
    await deaf.execute("rollback")
    await deaf.execute("unlisten *")
    assert await used_pages() <= 1

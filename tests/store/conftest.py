"""The engine under test, the bench, and the bystanders that live beside every test."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.conftest import INHABITED, make_tables
from tests.database_server import DatabaseServer
from tests.emulated_tables import EmulatedTables, clock_at
from tests.engines_under_test import choose_engines
from tests.reused_databases import ReusedDatabases
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest
from tests.store.bystander import Items, Owned, all_belongings, items_of_bystanders, settle_all
from tests.store.over_http import served

from leasehold.engine import ClonedDatabases, MovableClock, TestKit
from leasehold.engines import engine_for
from leasehold.engines.postgres.test_databases import DatabaseClock
from leasehold.model.status import Status
from leasehold.store import Store
from leasehold.testing.server import run_in_thread

WITH_BYSTANDERS = {
    "postgres": "settled_databases",
    "dynamodb": "settled_tables",
    "http": "settled_databases",
}
"""Fixtures of databases that no other tests use: the bystanders settle in their template, once for the run."""


OVER_HTTP = {f"test_{topic}" for topic in ("claim", "finish", "fence", "lease", "wakes", "outages", "trace_context")}
"""The worker's part of the suite: it also runs with workers that reach Postgres through the API."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    choose_engines(metafunc, {"http": "http://localhost"} if name in OVER_HTTP else None)


@pytest.fixture(scope="session")
def databases(engine_name: str, request: pytest.FixtureRequest) -> ClonedDatabases:
    """Databases that have the bystanders."""
    found: ClonedDatabases = request.getfixturevalue(WITH_BYSTANDERS[engine_name])
    run_in_thread(found.make_template(settle_all))
    return found


@pytest.fixture(scope="session")
def settled_databases(database_server: DatabaseServer) -> Iterator[ReusedDatabases]:
    known = database_server
    reused = ReusedDatabases(known.url, f"{known.run}{INHABITED}", known.schema, known.url_of, known.link)
    yield reused
    run_in_thread(reused.drop_free())


@pytest.fixture(scope="session")
def settled_tables(dynamodb_url: str) -> ClonedDatabases:
    return make_tables(dynamodb_url)


@pytest.fixture(scope="session")
def remembered() -> dict[str, tuple[Owned, Items]]:
    """The belongings of the bystanders in a template, by engine, and their items: each copy has the same."""
    return {}


@pytest.fixture
async def database_url(databases: ClonedDatabases) -> AsyncIterator[str]:
    """The URL of a fresh database of the engine under test."""
    name = await databases.clone()
    yield databases.url_for(name)
    await databases.drop(name)


@pytest.fixture
async def kit(database_url: str, engine_name: str) -> AsyncIterator[TestKit]:
    """The services of the engine under test."""
    direct = engine_for(database_url).test_kit()
    if engine_name != "http":
        yield direct
        return
    async with served(direct) as over_http:
        yield over_http


@pytest.fixture
def clock(kit: TestKit, databases: ClonedDatabases, database_url: str) -> MovableClock:
    """The clock of the kit, which is moved without a new connection where there is one that is kept."""
    if isinstance(databases, EmulatedTables):
        return clock_at(database_url)
    clock = kit.clock()
    if isinstance(databases, ReusedDatabases):
        assert isinstance(clock, DatabaseClock)
        return databases.clock_of(clock)
    return clock


@pytest.fixture
async def store(kit: TestKit) -> AsyncIterator[Store]:
    opened = await kit.open()
    yield opened
    await opened.close()


@pytest.fixture
def engine(store: Store, kit: TestKit, clock: MovableClock) -> EngineUnderTest:
    return EngineUnderTest(store, kit.open, clock.move)


@pytest.fixture
async def second_store(engine: EngineUnderTest) -> AsyncIterator[Store]:
    """Another store on the same data, as another process has it."""
    opened = await engine.open_again()
    yield opened
    await opened.close()


@pytest.fixture
async def stores(engine: EngineUnderTest) -> AsyncIterator[list[Store]]:
    """Four stores on the same data: what they do at once really happens at once."""
    opened = [await engine.open_again() for _ in range(4)]
    yield opened
    for each in opened:
        await each.close()


@pytest.fixture(autouse=True)
async def bystanders(
    engine: EngineUnderTest,
    kit: TestKit,
    engine_name: str,
    database_url: str,
    databases: ClonedDatabases,
    remembered: dict[str, tuple[Owned, Items]],
) -> AsyncIterator[None]:
    """Fails a test after which a bystander's jobs, attempts, lines or keys are not as before."""
    if engine_name not in remembered:
        owned = await all_belongings(engine.store)
        remembered[engine_name] = owned, await items_of_bystanders(database_url, databases)
    before, items = remembered[engine_name]
    for each in before.values():
        assert each.counts == {**each.counts, Status.QUEUED: 4, Status.RUNNING: 1, Status.DEAD_LETTER: 1}
        assert sum(len(lines) for lines in each.lines.values()) == 1
        assert set(each.holders) <= set(each.jobs)
    sent = len(kit.statements())
    yield
    if len(kit.statements()) == sent:  # the test has asked the database for nothing
        return
    if await items_of_bystanders(database_url, databases) == items:  # a store would read the same from them
        return
    for definition in (REPORT, EMAIL):  # asked for again, an inactive one would refuse
        await engine.store.activate(definition.key, True)
    assert await all_belongings(engine.store) == before


@pytest.fixture
def bench(engine: EngineUnderTest) -> Bench:
    return Bench(engine)

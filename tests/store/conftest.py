"""The engine under test, the bench, and the bystanders that live beside every test."""

from collections.abc import AsyncIterator

import pytest
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest
from tests.store.bystander import BYSTANDERS, belongings, settle_in

from leasehold.engine import MovableClock, TestKit
from leasehold.engines import engine_for
from leasehold.model.status import Status
from leasehold.store import Store


@pytest.fixture
def kit(database_url: str) -> TestKit:
    """The services of the engine under test."""
    return engine_for(database_url).test_kit()


@pytest.fixture
def clock(kit: TestKit) -> MovableClock:
    return kit.clock()


@pytest.fixture
async def store(kit: TestKit) -> AsyncIterator[Store]:
    opened = await kit.open()
    yield opened
    await opened.close()


@pytest.fixture
def engine(store: Store, kit: TestKit) -> EngineUnderTest:
    return EngineUnderTest(store, kit.open, kit.clock().move)


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
async def bystanders(engine: EngineUnderTest) -> AsyncIterator[None]:
    """Fails a test after which a bystander's jobs, attempts, lines or keys are not as before."""
    await engine.store.sync_definitions([REPORT, EMAIL])
    before = {}
    for tenant in BYSTANDERS:
        await settle_in(engine, tenant)
        before[tenant] = await belongings(engine.store, tenant)
    for owned in before.values():
        assert owned.counts == {**owned.counts, Status.QUEUED: 4, Status.RUNNING: 1, Status.DEAD_LETTER: 1}
        assert sum(len(lines) for lines in owned.lines.values()) == 1
        assert set(owned.holders) <= set(owned.jobs)
    yield
    for definition in (REPORT, EMAIL):  # asked for again, an inactive one would refuse
        await engine.store.activate(definition.key, True)
    assert {tenant: await belongings(engine.store, tenant) for tenant in BYSTANDERS} == before


@pytest.fixture
def bench(engine: EngineUnderTest) -> Bench:
    return Bench(engine)

"""The engine under test, the bench, and the bystanders that live beside every test."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.conftest import Clock
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest
from tests.store.bystander import BYSTANDERS, belongings, settle_in

from leasehold.engines import engine_for
from leasehold.engines.postgres.store import PostgresStore
from leasehold.model.status import Status
from leasehold.store import Store


class HostClock:
    """A store looks for work a bounded share of the time, which it measures by this. It moves with the engine's."""

    def __init__(self) -> None:
        self.moved = timedelta()

    def __call__(self) -> float:
        return time.monotonic() + self.moved.total_seconds()

    def given_to(self, store: Store) -> Store:
        assert isinstance(store, PostgresStore)
        store._claiming._monotonic = self
        return store


@pytest.fixture
async def engine(store: Store, database_url: str, clock: Clock) -> EngineUnderTest:
    host_clock = HostClock()

    async def open_again() -> Store:
        return host_clock.given_to(await engine_for(database_url).open())

    async def move_clock(by: timedelta) -> None:
        await clock.move(by)
        host_clock.moved += by

    return EngineUnderTest(host_clock.given_to(store), open_again, move_clock)


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

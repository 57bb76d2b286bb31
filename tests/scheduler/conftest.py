"""Fixtures for schedulers: tenants with schedules, and a clock that stands still."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest
from tests.conftest import Raw
from tests.scheduler.timetable import Timetable
from tests.worker.conftest import processes as processes
from tests.worker.conftest import shop as shop

from leasehold.engine import MovableClock
from leasehold.engines import engine_for
from leasehold.engines.postgres import schedules
from leasehold.model.definition import Definition
from leasehold.store import Store

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
def engine_clock(database_url: str) -> MovableClock:
    return engine_for(database_url).test_kit().clock()


@pytest.fixture
async def timetable(store: Store, engine_clock: MovableClock) -> Timetable:
    """Schedules of kind `report`. The clock stands still at noon, and is moved by the test."""
    await engine_clock.freeze(NOON)
    await store.sync_definitions([Definition("report")])
    return Timetable(store, engine_clock)


@pytest.fixture(autouse=True)
def unhurried_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round plans all of its fires, however slow the machine is."""
    monkeypatch.setattr(schedules, "PLANNING", 60.0)


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers fire at most 50 at once, and 25 of one fan-out if other schedules are due."""
    monkeypatch.setattr(schedules, "FIRES_AT_ONCE", 50)
    monkeypatch.setattr(schedules, "LARGEST_SHARE", 25)


@pytest.fixture
async def observer(database_url: str) -> AsyncIterator[Raw]:
    """A connection that only looks."""
    connection: Raw = await asyncpg.connect(database_url, server_settings={"application_name": "test"})
    yield connection
    await connection.close(timeout=5)

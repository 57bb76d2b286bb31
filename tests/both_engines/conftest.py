"""Fixtures for workers and schedulers on both engines: a workplace, worker processes, and schedules."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.engines_under_test import choose_engines
from tests.operations.conftest import database_url as database_url
from tests.operations.conftest import databases as databases
from tests.operations.conftest import kit as kit
from tests.operations.conftest import store as store
from tests.scheduler.timetable import Timetable
from tests.worker.conftest import processes as processes
from tests.worker.isolated_kit import IsolatedAt
from tests.worker.shop import Workplace, all_heartbeats_end

from leasehold.engine import TestKit
from leasehold.model.definition import Definition
from leasehold.store import Store

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_engines(metafunc)


@pytest.fixture
async def shop(database_url: str, store: Store, kit: TestKit) -> AsyncIterator[Workplace]:
    with all_heartbeats_end():
        yield Workplace(database_url, store, kit.open)


@pytest.fixture
def isolated(shop: Workplace, tmp_path: Path) -> IsolatedAt[Workplace]:
    return IsolatedAt(shop, tmp_path)


@pytest.fixture
async def timetable(store: Store, kit: TestKit) -> Timetable:
    """Schedules of kind `report`. The clock stands still at noon, and is moved by the test."""
    await kit.clock().freeze(NOON)
    await store.sync_definitions([Definition("report")])
    return Timetable(store, kit.clock())

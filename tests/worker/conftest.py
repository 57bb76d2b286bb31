"""Fixtures for tests with workers, in this process or in processes of their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.worker.shop import Processes, Raw, Shop, heartbeats

from leasehold.store import Store


@pytest.fixture
async def observer(database_url: str) -> AsyncIterator[Raw]:
    """A connection that only looks."""
    connection: Raw = await asyncpg.connect(database_url, server_settings={"application_name": "test"})
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def shop(database_url: str, store: Store, observer: Raw) -> AsyncIterator[Shop]:
    yield Shop(database_url, store, observer)
    assert not heartbeats(), "a worker was left behind: its heartbeat still beats"


@pytest.fixture
async def processes(database_url: str, tmp_path: Path) -> AsyncIterator[Processes]:
    """Worker processes on this test's database. All are ended with the test; one that they left behind fails it."""
    started = Processes(database_url, tmp_path)
    yield started
    await started.clear_up()

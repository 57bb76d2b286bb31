"""A warm enqueue within a transaction happens in the caller's thread alone."""

import asyncio
from typing import Any, NoReturn

import psycopg
import pytest
from tests.conftest import Raw

from leasehold import Job, Leasehold, Status, TypedDefinition
from leasehold.app.background import Background

Report = TypedDefinition[..., Any]


@pytest.fixture
def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets every call fail that goes to the app's thread."""

    def refuse(background: Background, operation: object) -> NoReturn:
        raise AssertionError(f"{operation} was sent to another thread")

    return lambda: monkeypatch.setattr(Background, "submit", refuse)


async def test_a_blocking_enqueue_crosses_to_no_other_thread(
    database_url: str, app: Leasehold, report: Report, refuse_threads: Any
) -> None:
    def enqueue() -> None:
        with psycopg.connect(database_url) as connection:
            handle = app.tenant("acme").within(connection)
            handle.enqueue(report, number=1)
            refuse_threads()
            handle.enqueue(report, number=2)
            handle.options(priority=3).enqueue_many([report.bind(3), report.bind(4)])

    await asyncio.to_thread(enqueue)
    assert (await app.tenant("acme").jobs.acounts(100))[Status.QUEUED] == 1 + 4


async def test_an_awaited_enqueue_crosses_to_no_other_thread(
    app: Leasehold, observer: Raw, database_url: str, refuse_threads: Any
) -> None:
    closed_here = Leasehold(database_url)

    @closed_here.job(key="report")
    async def same(job: Job, number: int) -> int:
        return number

    async with observer.transaction():
        handle = closed_here.tenant("acme").within(observer)
        await handle.aenqueue(same, number=1)
        refuse_threads()
        await handle.aenqueue(same, number=2)
    await asyncio.to_thread(closed_here.close)


async def test_a_blocking_enqueue_on_an_open_loop_stays_in_its_thread(
    database_url: str, app: Leasehold, report: Report, refuse_threads: Any
) -> None:
    """The loop's store does not know the tenant; the store that looked it up does."""
    with psycopg.connect(database_url) as connection:
        handle = app.tenant("new-tenant").within(connection)
        handle.enqueue(report, number=1)
        refuse_threads()
        handle.enqueue(report, number=2)
    assert (await app.tenant("new-tenant").jobs.acounts(100))[Status.QUEUED] == 2

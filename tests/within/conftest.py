"""An app, a driver of each kind, and a shop with workers that no timer helps."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.within.drivers import DRIVERS, Driver
from tests.worker.conftest import shop  # noqa: F401

from leasehold import Job, Leasehold, NewJob, Tenant, TypedDefinition


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Leasehold]:
    """With its jobs registered and the tenant known: what comes then is a matter of the caller's connection alone."""
    created = Leasehold(database_url)
    ran: list[int] = []

    @created.job
    async def report(job: Job, number: int) -> int:
        ran.append(number)
        return number

    created.ran = ran  # type: ignore[attr-defined]
    async with created.open():
        await created.tenant("acme").options(delay="1d").aenqueue(report, -1)
        yield created
    await asyncio.to_thread(created.close)


@pytest.fixture
def report(app: Leasehold) -> TypedDefinition[..., Any]:
    found = app.definition("report")
    assert found is not None
    return found


@pytest.fixture
def acme(app: Leasehold) -> Tenant:
    return app.tenant("acme")


@pytest.fixture
def job(report: TypedDefinition[..., Any]) -> NewJob:
    return report.bind(number=7)


@pytest.fixture(params=DRIVERS, ids=lambda kind: kind.name.replace(" ", "-"))
async def driver(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Driver]:
    opened: Driver = request.param(database_url)
    await opened.open()
    yield opened
    await opened.close()

"""An event within the caller's transaction lives and dies with it, with its jobs, whichever driver holds it."""

from typing import Any

import pytest
from tests.conftest import Raw
from tests.within.drivers import Driver

from leasehold import Tenant, TypedDefinition
from leasehold.errors import UnknownJob

NAME = "list.created"


@pytest.fixture(autouse=True)
async def trigger(acme: Tenant, report: TypedDefinition[..., Any]) -> None:
    await acme.triggers.acreate(report, event=NAME, payload={"number": "{{event.number}}"}, dedupe_window="1h")


async def events(observer: Raw) -> list[str]:
    return [row["name"] for row in await observer.fetch("select name from leasehold.events order by id")]


async def test_a_commit_keeps_the_event_and_its_jobs(driver: Driver, acme: Tenant, observer: Raw) -> None:
    await driver.begin()
    emitted = await driver.emit(acme, NAME, {"number": 7})
    again = await driver.emit(acme, NAME, {"number": 7})
    unmatched = await driver.emit(acme, "list.removed", {})
    assert await events(observer) == []
    await driver.commit()
    assert (await acme.aget(emitted.jobs[0])).payload == {"number": 7}
    assert (again.jobs, again.decisions[0].job, unmatched.decisions) == ((), emitted.jobs[0], ())
    assert await events(observer) == [NAME, NAME, "list.removed"]


async def test_a_rollback_leaves_nothing_of_an_event(driver: Driver, acme: Tenant, observer: Raw) -> None:
    await driver.begin()
    emitted = await driver.emit(acme, NAME, {"number": 7})
    await driver.emit(acme, "list.removed", {})
    await driver.rollback()
    assert await events(observer) == []
    with pytest.raises(UnknownJob):
        await acme.aget(emitted.jobs[0])


async def test_an_error_of_a_trigger_leaves_the_transaction_usable(driver: Driver, acme: Tenant) -> None:
    await driver.begin()
    emitted = await driver.emit(acme, NAME, {"number": "seven"})
    await driver.execute("select 1")
    await driver.commit()
    assert [decision.kind for decision in emitted.decisions] == ["error"]

"""Schedules for all tenants: a job for each, those of the future included, spread over time if asked for."""

from datetime import timedelta

import pytest
from tests.engines_under_test import SERVERS
from tests.scheduler.conftest import NOON
from tests.scheduler.timetable import HOUR, MINUTE, Timetable, add_tenants

from leasehold.engine import ClonedDatabases, MovableClock
from leasehold.errors import InvalidInput
from leasehold.model.decision import DecisionKind
from leasehold.model.definition import Definition
from leasehold.model.job import tenant_id
from leasehold.model.template import moment_text
from leasehold.model.trigger import ALL
from leasehold.store import Store

pytestmark = pytest.mark.abilities("schedules")


@pytest.fixture(autouse=True)
def bystanders() -> None:
    """There is none: a schedule for all tenants concerns each of them."""


@pytest.fixture(scope="session")
def databases(engine_name: str, request: pytest.FixtureRequest) -> ClonedDatabases:
    """Databases without bystanders."""
    found: ClonedDatabases = request.getfixturevalue(SERVERS[engine_name])
    return found


@pytest.fixture
async def timetable(store: Store, clock: MovableClock) -> Timetable:
    """Schedules of kind `report`. The clock stands still at noon, and is moved by the test."""
    await clock.freeze(NOON)
    await store.sync_definitions([Definition("report")])
    return Timetable(store, clock)


async def test_every_tenant_gets_a_job_of_its_own(timetable: Timetable, store: Store) -> None:
    trigger = await timetable.add(ALL, payload={"for": "{{tenant}}"})
    tenants = await add_tenants(store, 3)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 3
    for tenant in tenants:
        (job,) = await timetable.jobs(tenant)
        assert (job.payload, job.scheduled_for) == ({"for": tenant}, NOON + HOUR)
    assert [decision.tenant for decision in await timetable.decisions(trigger)] == tenants


async def test_the_previous_fire_is_the_same_as_for_one_tenant(timetable: Timetable, store: Store) -> None:
    (tenant,) = await add_tenants(store, 1)
    await timetable.add(ALL, payload={"since": "{{schedule.previous}}"})
    await timetable.add(tenant, payload={"since": "{{schedule.previous}}"})
    await timetable.clock.move(3 * HOUR)
    assert await timetable.fire() == 2
    jobs = await timetable.jobs(tenant)
    assert [job.payload["since"] for job in jobs] == [moment_text(NOON + 2 * HOUR)] * 2


async def test_a_new_tenant_is_part_of_the_next_fire(timetable: Timetable, store: Store) -> None:
    await timetable.add(ALL)
    await add_tenants(store, 1)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 1
    await add_tenants(store, 1, first=1)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 2


async def test_without_tenants_a_fire_passes(timetable: Timetable, store: Store) -> None:
    trigger = await timetable.add(ALL)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 0
    await add_tenants(store, 1)
    assert await timetable.fire() == 0
    assert await timetable.decisions(trigger) == []


@pytest.mark.parametrize(("catch_up", "ran"), [("skip", 0), ("latest", 1), ("all", 3)])
async def test_downtime_is_caught_up_for_all_tenants(
    timetable: Timetable, store: Store, catch_up: str, ran: int
) -> None:
    tenants = await add_tenants(store, 60)
    trigger = await timetable.add(ALL, catch_up=catch_up)
    await timetable.clock.move(3 * HOUR + 10 * MINUTE)
    assert await timetable.fire() == 60 * ran
    assert {len(await timetable.jobs(tenant)) for tenant in tenants} == {ran}
    missed = [each.count for each in await timetable.decisions(trigger) if each.kind is DecisionKind.MISSED]
    assert sum(missed) == 3 - ran


async def test_spread_gives_each_tenant_its_own_stable_second(timetable: Timetable, store: Store) -> None:
    tenants = await add_tenants(store, 40)
    await timetable.add(ALL, spread=30 * MINUTE)
    offsets = []
    for hour in (1, 2):
        await timetable.clock.move(HOUR)
        await timetable.fire()
        jobs = [(await timetable.jobs(tenant))[-1] for tenant in tenants]
        offsets.append([job.scheduled_for - NOON - hour * HOUR for job in jobs])
    assert offsets[0] == offsets[1]
    assert len(set(offsets[0])) > 30
    assert all(timedelta() <= offset < 30 * MINUTE for offset in offsets[0])


async def test_a_spread_needs_all_tenants(timetable: Timetable) -> None:
    trigger = await timetable.add(spread=30 * MINUTE)
    with pytest.raises(InvalidInput, match=r"spread=.* is for a schedule of all tenants"):
        trigger.rule.check_tenant(tenant_id("acme"))

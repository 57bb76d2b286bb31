"""Schedules for all tenants: a job for each, in bounded rounds, spread over time if asked for."""

from datetime import timedelta

import pytest
from tests.scheduler.conftest import NOON
from tests.scheduler.timetable import HOUR, MINUTE, Timetable

from leasehold.errors import InvalidInput
from leasehold.model.cron import Cron
from leasehold.model.decision import DecisionKind
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.limits import Pause
from leasehold.model.template import moment_text
from leasehold.model.trigger import ALL
from leasehold.store import Store


async def add_tenants(store: Store, count: int, first: int = 0) -> list[TenantId]:
    tenants = [tenant_id(f"t{number:04}") for number in range(first, first + count)]
    for tenant in tenants:
        await store.add_tenant(tenant)
    return tenants


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


async def test_many_tenants_take_several_rounds_of_fifty(timetable: Timetable, store: Store) -> None:
    await timetable.add(ALL)
    await add_tenants(store, 120)
    await timetable.clock.move(HOUR)
    rounds = [await store.schedules.fire_due() for _ in range(4)]
    assert [done.fired for done in rounds] == [50, 50, 20, 0]
    assert [done.more for done in rounds] == [True, True, False, False]


async def test_fan_outs_leave_room_for_other_schedules(timetable: Timetable, store: Store) -> None:
    tenants = await add_tenants(store, 120)
    for label in ("first", "second"):
        await timetable.add(ALL, label=label)
    await timetable.add(schedule=Cron("1 13 * * *"))
    await timetable.clock.move(HOUR + 2 * MINUTE)
    rounds = [await store.schedules.fire_due() for _ in range(2)]
    assert [done.fired for done in rounds] == [50, 50]
    assert NOON + HOUR + MINUTE in await timetable.fired_at()
    await timetable.fire()
    assert [len(await timetable.jobs(tenant)) for tenant in tenants] == [2] * 120


async def test_another_scheduler_goes_on_where_one_stopped(
    timetable: Timetable, store: Store, database_url: str
) -> None:
    tenants = await add_tenants(store, 70)
    await timetable.add(ALL)
    await timetable.clock.move(HOUR)
    await store.schedules.fire_due()
    await timetable.clock.move(10 * MINUTE)
    assert await timetable.fire() == 20
    assert [len(await timetable.jobs(tenant)) for tenant in tenants] == [1] * 70


async def test_a_pause_stops_a_fire_halfway_until_it_ends(timetable: Timetable, store: Store) -> None:
    await add_tenants(store, 70)
    trigger = await timetable.add(ALL)
    await timetable.clock.move(HOUR)
    await store.schedules.fire_due()
    await store.triggers(ALL).pause(trigger.id, Pause("too much"))
    assert await timetable.fire() == 0
    await store.triggers(ALL).pause(trigger.id, None)
    assert await timetable.fire() == 20


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

"""Rounds of a scheduler: how much one transaction plans while it holds its locks."""

import pytest
from tests.scheduler.conftest import NOON
from tests.scheduler.timetable import HOUR, MINUTE, Timetable, add_tenants

from leasehold.engines.postgres import schedules
from leasehold.model.cron import Cron
from leasehold.model.limits import Pause
from leasehold.model.trigger import ALL
from leasehold.store import Store


async def test_a_round_ends_when_its_planning_takes_long(
    timetable: Timetable, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "PLANNING", 0.0)
    for number in range(3):
        await timetable.add(label=f"number {number}")
    await timetable.clock.move(HOUR)
    rounds = [await store.schedules.fire_due() for _ in range(3)]
    assert [(done.fired, done.more) for done in rounds] == [(1, True), (1, True), (1, False)]


@pytest.mark.usefixtures("small_rounds")
async def test_many_tenants_take_several_rounds(timetable: Timetable, store: Store) -> None:
    await timetable.add(ALL)
    await add_tenants(store, 120)
    await timetable.clock.move(HOUR)
    rounds = [await store.schedules.fire_due() for _ in range(4)]
    assert [done.fired for done in rounds] == [50, 50, 20, 0]
    assert [done.more for done in rounds] == [True, True, False, False]


@pytest.mark.usefixtures("small_rounds")
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


@pytest.mark.usefixtures("small_rounds")
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


@pytest.mark.usefixtures("small_rounds")
async def test_a_pause_stops_a_fire_halfway_until_it_ends(timetable: Timetable, store: Store) -> None:
    await add_tenants(store, 70)
    trigger = await timetable.add(ALL)
    await timetable.clock.move(HOUR)
    await store.schedules.fire_due()
    await store.triggers(ALL).pause(trigger.id, Pause("too much"))
    assert await timetable.fire() == 0
    await store.triggers(ALL).pause(trigger.id, None)
    assert await timetable.fire() == 20

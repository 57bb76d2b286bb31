"""A new tzdata: crons whose next fire it moves are moved before the fire, however late the old one was."""

import pytest
from tests.conftest import Raw, eventually
from tests.scheduler.conftest import NOON
from tests.scheduler.test_fire_loop import running
from tests.scheduler.timetable import ACME, HOUR, MINUTE, Timetable

from leasehold.engines.postgres import new_tzdata
from leasehold.model.limits import Pause
from leasehold.model.schedule import every
from leasehold.model.trigger import Trigger
from leasehold.scheduler import FireLoop
from leasehold.store import Store


async def computed_by_an_old_tzdata(observer: Raw, release: str = "2020a") -> None:
    """Its rules put every fire an hour later."""
    await observer.execute(
        "update leasehold.triggers set next_fire_at = next_fire_at + interval '1 hour', tzdata = $1", release
    )


async def current(timetable: Timetable, trigger: Trigger) -> Trigger:
    found = await timetable.store.triggers(trigger.tenant).get(trigger.id)
    assert found is not None
    return found


async def test_a_fire_that_is_now_earlier_is_made_in_time(timetable: Timetable, store: Store, observer: Raw) -> None:
    await timetable.add(catch_up="skip")
    await computed_by_an_old_tzdata(observer)
    assert await store.schedules.renew_fire_times() == 1
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 1


async def test_a_loop_that_starts_moves_fires_of_an_old_tzdata(
    timetable: Timetable, store: Store, observer: Raw
) -> None:
    trigger = await timetable.add()
    await computed_by_an_old_tzdata(observer)

    async def is_moved() -> bool:
        return (await current(timetable, trigger)).next_at == NOON + HOUR

    async with running(FireLoop(store)):
        await eventually(is_moved, what="the fire of the new tzdata")


async def test_a_pause_still_holds_under_a_new_tzdata(timetable: Timetable, store: Store, observer: Raw) -> None:
    trigger = await timetable.add()
    until = NOON + 90 * MINUTE
    await store.triggers(ACME).pause(trigger.id, Pause("holidays", until))
    await computed_by_an_old_tzdata(observer)
    await store.schedules.renew_fire_times()
    assert (await current(timetable, trigger)).next_at == until


async def test_fires_of_a_newer_tzdata_are_left_alone(timetable: Timetable, store: Store, observer: Raw) -> None:
    """A worker that was not restarted yet does not undo what newer ones have computed."""
    await timetable.add()
    await computed_by_an_old_tzdata(observer, "9999z")
    assert await store.schedules.renew_fire_times() == 0


async def test_every_fire_of_a_process_is_of_its_tzdata(timetable: Timetable, store: Store) -> None:
    trigger = await timetable.add()
    await timetable.add(label="interval", schedule=every("1h"))
    assert await store.schedules.renew_fire_times() == 0
    await timetable.clock.move(HOUR)
    await timetable.fire()
    await store.triggers(ACME).pause(trigger.id, None)
    assert await store.schedules.renew_fire_times() == 0


async def test_many_fires_are_moved_in_bounded_transactions(
    timetable: Timetable, store: Store, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that can't be read is passed over."""
    monkeypatch.setattr(new_tzdata, "AT_ONCE", 2)
    triggers = [await timetable.add(label=f"number {number}") for number in range(5)]
    await computed_by_an_old_tzdata(observer)
    await observer.execute("update leasehold.triggers set cron = '61 * * * *' where id = $1::uuid", triggers[1].id)
    assert await store.schedules.renew_fire_times() == 4
    assert await store.schedules.renew_fire_times() == 0

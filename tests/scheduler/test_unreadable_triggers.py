"""Triggers that this release can't read: people see them, and can pause, repair or remove them."""

import pytest
from tests.conftest import Raw
from tests.scheduler.conftest import NOON
from tests.scheduler.timetable import ACME, HOUR, HOURLY, Timetable

from leasehold.errors import WrongState
from leasehold.model.limits import Pause
from leasehold.model.schedule import every
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.operations import triggers as operations
from leasehold.operations import views
from leasehold.operations.catalog import Catalog
from leasehold.store import DeclaredTrigger, Store
from leasehold.worker import Handlers

CODE = DeclaredTrigger(ACME, NewTrigger(label="of the code", definition="report", schedule=HOURLY))


@pytest.fixture
async def broken(timetable: Timetable, observer: Raw) -> Trigger:
    trigger = await timetable.add(payload={"n": 1})
    await make_unreadable(observer)
    return trigger


async def make_unreadable(observer: Raw) -> None:
    await observer.execute("update leasehold.triggers set cron = '61 * * * *'")


async def test_an_unreadable_trigger_is_listed_with_the_reason(broken: Trigger, store: Store) -> None:
    for found in (
        *await store.all_triggers.list(10),
        *await store.triggers(ACME).list(10),
        await store.all_triggers.get(broken.id),
        await store.triggers(ACME).get(broken.id),
    ):
        assert found is not None
        assert (found.id, found.rule.label, found.rule.payload) == (broken.id, "hourly", {"n": 1})
        assert found.unreadable.keys() == {"schedule"}
        assert found.unreadable["schedule"].startswith("The cron '61 * * * *' can't be used")
        document = views.trigger(found)
        assert (document["schedule"], document["unreadable"]) == (None, found.unreadable)


async def test_a_trigger_that_can_be_read_hides_nothing(timetable: Timetable, store: Store) -> None:
    await timetable.add()
    (found,) = await store.all_triggers.list(10)
    assert found.unreadable == {}


async def test_an_unreadable_trigger_is_removed_by_its_id(broken: Trigger, store: Store) -> None:
    await operations.delete(store, ACME, broken.id)
    assert await store.all_triggers.list(10) == []


async def test_an_unreadable_trigger_is_paused_and_resumed(broken: Trigger, store: Store) -> None:
    triggers = store.triggers(ACME)
    for pause, look in ((Pause("broken"), None), (Pause("broken", NOON + HOUR), NOON + HOUR), (None, NOON)):
        changed = await triggers.pause(broken.id, pause)
        assert changed is not None
        assert (changed.pause, changed.next_at) == (pause, look)


async def test_an_unreadable_trigger_is_repaired_by_an_edit(
    broken: Trigger, timetable: Timetable, store: Store
) -> None:
    changed = await operations.update(ACME, broken.id, {"schedule": every("30m")}, Catalog(store, Handlers()))
    assert changed.unreadable == {}
    await timetable.clock.move(HOUR / 2)
    assert await timetable.fire() == 1


async def test_an_edit_never_stores_what_stands_for_a_value(broken: Trigger, store: Store, observer: Raw) -> None:
    with pytest.raises(WrongState, match="schedule of the trigger 'hourly' can't be read by this release"):
        await operations.update(ACME, broken.id, {"label": "nightly"}, Catalog(store, Handlers()))
    assert await observer.fetchval("select cron from leasehold.triggers") == "61 * * * *"


async def test_an_unreadable_schedule_has_no_preview(broken: Trigger, store: Store) -> None:
    with pytest.raises(WrongState, match="can't be read by this release"):
        await operations.preview_trigger(store, ACME, broken.id, 5, "UTC")


async def test_a_sync_replaces_an_unreadable_trigger(timetable: Timetable, store: Store, observer: Raw) -> None:
    await store.all_triggers.sync([CODE], ["report"])
    await make_unreadable(observer)
    (change,) = await store.all_triggers.sync([CODE], ["report"])
    assert change.fields.keys() == {"schedule"}
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 1


async def test_a_sync_removes_an_unreadable_trigger(timetable: Timetable, store: Store, observer: Raw) -> None:
    await store.all_triggers.sync([CODE], ["report"])
    await make_unreadable(observer)
    (change,) = await store.all_triggers.sync([], ["report"])
    assert change.removed
    assert await store.all_triggers.list(10) == []

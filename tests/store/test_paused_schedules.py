"""Schedules that are paused, disabled or deleted: none of their fires makes a job."""

from datetime import datetime, timedelta

import pytest
from tests.store.schedule_kit import NOON, Plans, hours, rule
from tests.store.schedule_kit import noon as noon
from tests.store.schedule_kit import plans as plans
from tests.tenant_kit import HOUR

from leasehold.model.decision import Reason
from leasehold.model.limits import Pause
from leasehold.model.schedule import Every

MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.abilities("schedules")


async def test_a_paused_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add()
    await plans.triggers.pause(trigger.id, Pause("holidays"))
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.kinds(trigger) == []


async def test_a_resumed_schedule_catches_up_by_its_policy(plans: Plans) -> None:
    trigger = await plans.add(catch_up="latest")
    await plans.triggers.pause(trigger.id, Pause("holidays"))
    await plans.move(3 * HOUR)
    await plans.triggers.pause(trigger.id, None)
    assert await plans.fire() == 1
    assert await plans.fired_at() == hours(3)


async def test_fires_missed_by_a_pause_say_so(plans: Plans) -> None:
    resumed = await plans.add(label="resumed")
    ended = await plans.add(label="ended")
    await plans.triggers.pause(resumed.id, Pause("holidays"))
    await plans.triggers.pause(ended.id, Pause("holidays", until=NOON + 3 * HOUR))
    await plans.move(3 * HOUR)
    await plans.triggers.pause(resumed.id, None)
    assert await plans.fire() == 2
    for trigger in (resumed, ended):
        missed, _ = await plans.decisions(trigger)
        assert (missed.reason, missed.why) == (Reason.PAUSED, "2 fires were missed while the trigger was paused")
        after = await plans.triggers.get(trigger.id)
        assert after is not None
        assert after.pause is None


async def test_a_pause_ends_by_itself(plans: Plans) -> None:
    trigger = await plans.add(catch_up="skip")
    await plans.triggers.pause(trigger.id, Pause("holidays", until=NOON + 150 * MINUTE))
    await plans.move(2 * HOUR)
    assert await plans.fire() == 0
    await plans.move(30 * MINUTE)
    assert await plans.fire() == 0
    await plans.move(30 * MINUTE)
    assert await plans.fire() == 1
    assert await plans.fired_at() == hours(3)
    current = await plans.triggers.get(trigger.id)
    assert current is not None
    assert current.pause is None


async def test_a_resume_during_an_edit_is_kept(plans: Plans) -> None:
    trigger = await plans.add()
    seen = await plans.triggers.pause(trigger.id, Pause("holidays"))
    assert seen is not None
    await plans.triggers.pause(trigger.id, None)
    await plans.triggers.change(seen, rule(Every("30m")))
    await plans.move(HOUR / 2)
    assert await plans.fire() == 1


@pytest.mark.parametrize("until", [None, NOON + 3 * HOUR])
async def test_a_pause_during_an_edit_is_kept(plans: Plans, until: datetime | None) -> None:
    seen = await plans.add()
    await plans.triggers.pause(seen.id, Pause("holidays", until))
    changed = await plans.triggers.change(seen, rule(Every("30m")))
    await plans.move(HOUR)
    assert await plans.fire() == 0
    assert changed is not None
    assert (changed.pause, changed.next_at) == (Pause("holidays", until), until)


async def test_a_disabled_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add(enabled=False)
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.kinds(trigger) == []


async def test_an_enabled_schedule_begins_at_that_moment(plans: Plans) -> None:
    trigger = await plans.add(enabled=False, catch_up="all")
    await plans.move(10 * HOUR)
    await plans.triggers.change(trigger, rule(catch_up="all"))
    assert await plans.fire() == 0
    await plans.move(HOUR)
    await plans.fire()
    assert await plans.fired_at() == hours(11)


async def test_a_restored_schedule_begins_at_that_moment(plans: Plans) -> None:
    trigger = await plans.add(catch_up="all")
    await plans.triggers.pause(trigger.id, Pause("holidays", until=NOON + 5 * HOUR))
    await plans.triggers.delete(trigger.id)
    await plans.move(6 * HOUR)
    seen = await plans.triggers.get(trigger.id, deleted=True)
    assert seen is not None
    back = await plans.triggers.change(seen, seen.rule, restore=True)
    assert back is not None
    assert (back.id, back.rule, back.deleted_at) == (trigger.id, trigger.rule, None)
    assert await plans.triggers.get(trigger.id, deleted=True) is None
    await plans.move(HOUR)
    assert await plans.fire() == 1
    assert await plans.fired_at() == hours(7)


async def test_a_deleted_trigger_is_found_as_deleted_only(plans: Plans) -> None:
    trigger = await plans.add()
    assert await plans.triggers.get(trigger.id, deleted=True) is None
    await plans.triggers.delete(trigger.id)
    found = await plans.triggers.get(trigger.id, deleted=True)
    assert found is not None
    assert (found.rule, found.deleted_at) == (trigger.rule, NOON)
    assert await plans.triggers.get(trigger.id) is None


async def test_a_deleted_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add()
    assert await plans.triggers.delete(trigger.id)
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.triggers.get(trigger.id) is None
    assert not await plans.triggers.delete(trigger.id)

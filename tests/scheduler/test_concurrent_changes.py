"""Changes of a schedule at the same moment: neither undoes what the other has written."""

import asyncio

from tests.conftest import PATIENCE, Raw, eventually
from tests.scheduler.conftest import NOON
from tests.scheduler.timetable import ACME, HOUR, Timetable

from leasehold.model.limits import Pause


async def test_a_resume_uses_the_cron_of_a_change_under_way(timetable: Timetable, observer: Raw) -> None:
    triggers = timetable.store.triggers(ACME)
    trigger = await timetable.add()
    await triggers.pause(trigger.id, Pause("holidays"))
    async with observer.transaction():
        await observer.execute(
            "update leasehold.triggers set cron = '0 15 * * *', version = version + 1 where id = $1::uuid", trigger.id
        )
        resume = asyncio.create_task(triggers.pause(trigger.id, None))
        await eventually(lambda: _someone_waits(observer), what="the resume at the locked row")
    resumed = await resume
    assert resumed is not None
    assert resumed.next_at == NOON + 3 * HOUR


async def _someone_waits(observer: Raw) -> bool:
    return bool(await observer.fetchval("select exists (select from pg_locks where not granted)"))


async def test_a_schedule_that_another_scheduler_fires_is_passed_over(timetable: Timetable, observer: Raw) -> None:
    """Its row is locked for as long as the other scheduler's transaction runs."""
    held = await timetable.add()
    await timetable.add(label="free")
    await timetable.clock.move(HOUR)
    async with observer.transaction():
        await observer.execute("select from leasehold.triggers where id = $1::uuid for update", held.id)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            assert (await timetable.store.schedules.fire_due()).fired == 1
    assert await timetable.fire() == 1

"""Schedules and events on each engine, by schedulers, workers and ticks."""

import asyncio
from datetime import timedelta
from typing import Any

from tests.both_engines.conftest import NOON
from tests.conftest import eventually
from tests.scheduler.timetable import ACME, HOUR, MINUTE, Timetable
from tests.worker.shop import Workplace, only

from leasehold import Leasehold, engine
from leasehold.model.decision import DecisionKind
from leasehold.model.event import NewEvent
from leasehold.model.job import Source
from leasehold.model.limits import Pause
from leasehold.model.schedule import every
from leasehold.model.status import Status
from leasehold.model.trigger import NewTrigger
from leasehold.scheduler import FireLoop, fire_due_schedules
from leasehold.store import Filter
from leasehold.worker import Handlers, Job

FOLDER = "provider.folder.updated"


def reports() -> Handlers:
    async def report(job: Job, payload: dict[str, Any]) -> Any:
        return payload

    return only(report)


async def test_two_schedulers_fire_each_time_once(timetable: Timetable, kit: engine.TestKit) -> None:
    await timetable.add(catch_up="all")
    other = await kit.open()
    for _ in range(3):
        await timetable.clock.move(HOUR)
        await asyncio.gather(fire_due_schedules(timetable.store), fire_due_schedules(other))
    await other.close()
    await timetable.fire()
    assert await timetable.fired_at() == [NOON + number * HOUR for number in (1, 2, 3)]


async def test_a_late_scheduler_catches_up_as_it_was_told(timetable: Timetable) -> None:
    trigger = await timetable.add(catch_up="latest")
    await timetable.clock.move(3 * HOUR + 10 * MINUTE)
    await timetable.fire()
    assert await timetable.fired_at() == [NOON + 3 * HOUR]
    missed = [each.count for each in await timetable.decisions(trigger) if each.kind is DecisionKind.MISSED]
    assert sum(missed) == 2


async def test_a_paused_schedule_does_not_fire(timetable: Timetable) -> None:
    trigger = await timetable.add()
    await timetable.store.triggers(ACME).pause(trigger.id, Pause("maintenance"))
    await timetable.clock.move(2 * HOUR)
    assert (await timetable.fire(), await timetable.jobs()) == (0, [])


async def test_a_worker_fires_schedules_and_runs_their_jobs(shop: Workplace, timetable: Timetable) -> None:
    await timetable.clock.freeze(None)
    await timetable.add(schedule=every("1s"), payload={"of": "a schedule"})
    async with shop.working(reports(), make_schedules=FireLoop):
        await timetable.until_fired(1)
        (first, *_) = await timetable.jobs()
        record = await shop.ended(first.id)
    assert (record.status, record.result, record.source) == (
        Status.SUCCEEDED,
        {"of": "a schedule"},
        Source.SCHEDULE,
    )


async def test_an_event_makes_a_job_of_each_trigger(shop: Workplace, timetable: Timetable) -> None:
    for label in ("one", "two"):
        rule = NewTrigger(label=label, definition="report", event=FOLDER, payload={"of": label})
        await shop.store.triggers(ACME).add(rule)
    async with shop.working(reports(), make_schedules=FireLoop):
        await shop.store.events(ACME).emit(NewEvent(FOLDER, {"path": "/a"}))

        async def made() -> bool:
            return len((await shop.jobs.find(Filter(source=Source.EVENT), None, 10)).jobs) == 2

        await eventually(made, what="the jobs of the event")
        found = (await shop.jobs.find(Filter(source=Source.EVENT), None, 10)).jobs
        records = await shop.all_ended([job.id for job in found])
    assert {record.status for record in records} == {Status.SUCCEEDED}


async def test_a_tick_fires_and_runs_what_is_due(shop: Workplace, timetable: Timetable) -> None:
    app = Leasehold(shop.url)

    @app.job(key="report")
    async def report(job: Job) -> str:
        return "ticked"

    await timetable.add()
    await timetable.clock.move(HOUR + timedelta(seconds=1))
    async with app.open():
        ticked = await app.atick()
    (made,) = await timetable.jobs()
    assert (ticked.fired, ticked.succeeded) == (1, 1)
    assert (made.status, made.result) == (Status.SUCCEEDED, "ticked")

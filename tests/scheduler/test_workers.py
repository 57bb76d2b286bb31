"""Workers fire schedules beside their jobs, in time, and cost an idle database nothing more."""

from typing import Any

import pytest
from tests.conftest import eventually
from tests.scheduler.timetable import HOUR, MINUTE, Timetable
from tests.worker.shop import Shop, only

from leasehold.model.decision import DecisionKind
from leasehold.model.schedule import every
from leasehold.model.status import Status
from leasehold.scheduler import FireLoop
from leasehold.worker import Handlers, Job


@pytest.fixture
def handlers() -> Handlers:
    async def report(job: Job, payload: dict[str, Any]) -> None: ...

    return only(report)


async def test_a_worker_fires_a_schedule_that_is_added_later(
    shop: Shop, timetable: Timetable, handlers: Handlers
) -> None:
    """It rests when the schedule comes; only its notification can tell it."""
    await timetable.clock.freeze(None)
    async with shop.working(handlers, make_schedules=FireLoop) as worker:
        await shop.at_rest(worker)
        await timetable.add(schedule=every("1s"))
        await timetable.until_fired(1)
        (job, *_) = await timetable.jobs()
        assert (await shop.ended(job.id)).status is Status.SUCCEEDED


@pytest.mark.parametrize(("catch_up", "ran", "missed"), [("skip", 0, 3), ("latest", 1, 2), ("all", 3, 0)])
async def test_a_worker_that_was_down_catches_up(
    shop: Shop, timetable: Timetable, handlers: Handlers, catch_up: str, ran: int, missed: int
) -> None:
    trigger = await timetable.add(catch_up=catch_up)
    await timetable.clock.move(3 * HOUR + 10 * MINUTE)
    async with shop.working(handlers, make_schedules=FireLoop):
        await eventually(lambda: _decided(timetable, ran + bool(missed)), what="the decisions")
        await timetable.until_fired(ran)
    counts = [each.count for each in await timetable.decisions(trigger) if each.kind is DecisionKind.MISSED]
    assert (len(await timetable.jobs()), sum(counts)) == (ran, missed)


async def _decided(timetable: Timetable, count: int) -> bool:
    (trigger,) = await timetable.store.all_triggers.list(10)
    return len(await timetable.decisions(trigger)) >= count


async def test_a_wake_makes_the_worker_look_at_schedules(
    shop: Shop, timetable: Timetable, handlers: Handlers
) -> None:
    await timetable.add()
    async with shop.working(handlers, make_schedules=FireLoop) as worker:
        await shop.at_rest(worker)
        await timetable.clock.move(HOUR)
        worker.wake()
        await timetable.until_fired(1)


async def test_a_worker_without_a_scheduler_fires_nothing(
    shop: Shop, timetable: Timetable, handlers: Handlers
) -> None:
    await timetable.add()
    await timetable.clock.move(HOUR)
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        worker.wake()
        await shop.ended(await shop.enqueue())
    assert await timetable.jobs() == []


async def test_an_idle_worker_asks_nothing_about_schedules(
    shop: Shop, timetable: Timetable, handlers: Handlers
) -> None:
    """Its heartbeat tells it the next fire. At its start it asks once for fires of an older tzdata."""
    await timetable.add()
    async with shop.working(handlers, make_schedules=FireLoop) as worker:
        await shop.at_rest(worker)
        await shop.ended(await shop.enqueue())
        await shop.at_rest(worker)
    assert [name for name in shop.stores.statements if name.startswith("scheduler/")] == ["scheduler/outdated"]

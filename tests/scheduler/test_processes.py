"""`leasehold scheduler` and `leasehold worker` as processes."""

import signal
from datetime import timedelta

from tests.scheduler.timetable import Timetable
from tests.worker.shop import Processes, Shop

from leasehold.model.schedule import every
from leasehold.store import Store

MAIN = ("-c", "from leasehold.cli import main; main()")


async def test_a_scheduler_fires_and_ends_when_it_is_told_to(processes: Processes, timetable: Timetable) -> None:
    await timetable.clock.freeze(None)
    scheduler = processes.python(*MAIN, "scheduler", "--json")
    await scheduler.says("scheduler fires the schedules of all tenants")
    await timetable.add(schedule=every("1s"))
    await timetable.until_fired(2)
    await scheduler.says('"event":"schedules.fired","jobs":1')
    scheduler.send(signal.SIGTERM)
    assert await scheduler.code() == 0


async def test_a_scheduler_that_cannot_listen_polls(processes: Processes, timetable: Timetable) -> None:
    await timetable.clock.freeze(None)
    scheduler = processes.python(*MAIN, "scheduler", LEASEHOLD_NOTIFY="off")
    await scheduler.says("scheduler fires the schedules of all tenants")
    await timetable.add(schedule=every("1s"))
    await timetable.until_fired(1)
    scheduler.send(signal.SIGINT)
    assert await scheduler.code() == 0


async def test_a_worker_process_fires(processes: Processes, timetable: Timetable) -> None:
    await timetable.clock.freeze(None)
    processes.worker()
    await timetable.add(schedule=every("1s"))
    await timetable.until_fired(1)


async def test_a_worker_process_may_leave_schedules_alone(
    processes: Processes, timetable: Timetable, store: Store, shop: Shop
) -> None:
    """A job that is due after two fires has ended, and nothing has fired."""
    await timetable.clock.freeze(None)
    worker = processes.worker("--no-scheduler")
    await worker.says("✓ worker")
    trigger = await timetable.add(schedule=every("1s"))
    payload = {"folder": str(processes.folder)}
    await shop.ended(await shop.enqueue("note", payload=payload, delay=timedelta(seconds=2)))
    assert await timetable.decisions(trigger) == []

"""Schedulers behind a pooler in transaction mode: no session holds a lock, and each time fires once."""

import asyncio

from tests.lossy_proxies import through_a_pooler
from tests.scheduler.timetable import HOUR, Timetable

from leasehold.engines import engine_for


async def test_schedulers_behind_a_pooler_fire_each_time_once(timetable: Timetable, database_url: str) -> None:
    for number in range(20):
        await timetable.add(label=f"number {number}")
    async with through_a_pooler(database_url) as pooled_url:
        stores = await asyncio.gather(*(engine_for(pooled_url).open() for _ in range(5)))
        try:
            for _ in range(3):
                await timetable.clock.move(HOUR)
                await asyncio.gather(*(store.schedules.fire_due() for store in stores))
        finally:
            await asyncio.gather(*(store.close() for store in stores))
    await timetable.fire()  # a schedule that two of them have seen as locked
    assert len(await timetable.fired_at()) == 60

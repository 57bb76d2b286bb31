"""A scheduler that can't do its work is not ready, and says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.conftest import eventually
from tests.proxy import Proxy

from leasehold.engines import engine_for
from leasehold.scheduler import Scheduler, SchedulerSettings

AWAY = "the database has been away for "


@asynccontextmanager
async def scheduling(url: str) -> AsyncIterator[Scheduler]:
    """A scheduler that looks ten times a second, so that it soon learns that the database is away."""
    scheduler = Scheduler(engine_for(url).open, SchedulerSettings(fallback=timedelta(milliseconds=100)))
    running = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        scheduler.stop()
        async with asyncio.timeout(30):
            await running


async def until_told(scheduler: Scheduler, *beginnings: str) -> None:
    """Returns when the scheduler has these problems and no others; each is named by its beginning."""

    async def is_told() -> bool:
        problems = scheduler.process_state().problems
        return len(problems) == len(beginnings) and all(map(str.startswith, problems, beginnings))

    await eventually(is_told, what=f"a scheduler with the problems {beginnings}")


async def test_a_scheduler_is_not_ready_before_it_has_begun(database_url: str) -> None:
    scheduler = Scheduler(engine_for(database_url).open)
    assert scheduler.process_state().problems == ("the scheduler has not reached the database yet",)


async def test_a_scheduler_waits_for_its_database_and_is_ready(proxy: Proxy) -> None:
    proxy.refuse()
    async with scheduling(proxy.url) as scheduler:
        await until_told(scheduler, AWAY)
        proxy.heal()
        await until_told(scheduler)


async def test_a_scheduler_is_not_ready_while_its_database_is_away(proxy: Proxy) -> None:
    async with scheduling(proxy.url) as scheduler:
        await until_told(scheduler)
        proxy.refuse()
        await until_told(scheduler, AWAY)
        proxy.heal()
        await until_told(scheduler)


async def test_a_scheduler_that_stops_is_not_ready(database_url: str) -> None:
    async with scheduling(database_url) as scheduler:
        await until_told(scheduler)
        scheduler.stop()
        assert scheduler.process_state().problems == ("the scheduler is stopping",)

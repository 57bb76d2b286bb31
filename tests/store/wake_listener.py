"""Listening for wakes, and falling asleep by the protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

import pytest
from tests.conftest import PATIENCE, eventually

from leasehold.store import DueWork, NextFire, Registration, Store, Wake


class WakeListener:
    """Every wake of one worker, in order. Due times and fires of schedules are listed separately."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[Wake] = asyncio.Queue()
        self.due: list[DueWork] = []
        self.fires: list[NextFire] = []

    async def next(self) -> Wake:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                return await self._heard.get()
        except TimeoutError:
            pytest.fail(f"no wake came within {PATIENCE.total_seconds():g} s")

    async def listen(self, wakes: AsyncIterator[Wake | DueWork | NextFire]) -> None:
        async for wake in wakes:
            if isinstance(wake, DueWork):
                self.due.append(wake)
            elif isinstance(wake, NextFire):
                self.fires.append(wake)
            else:
                self._heard.put_nowait(wake)


@asynccontextmanager
async def listening(store: Store, registration: Registration) -> AsyncIterator[WakeListener]:
    """Connected: the WORK that every connection begins with has been heard."""
    listener = WakeListener()
    async with aclosing(store.wakes(registration)) as wakes:
        task = asyncio.create_task(listener.listen(wakes))
        try:
            assert await listener.next() is Wake.WORK
            yield listener
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def fall_asleep(store: Store, registration: Registration) -> timedelta | None:
    """Settles until a wake is sure to come; how long until the next job is due."""
    next_due: timedelta | None = None

    async def settled() -> bool:
        nonlocal next_due
        answer = await store.prepare_to_sleep(registration)
        assert not answer.claims, "there was work: the worker could not fall asleep"
        next_due = answer.next_due
        return not answer.more

    await eventually(settled, what="falling asleep")
    return next_due


@asynccontextmanager
async def asleep(store: Store, registration: Registration) -> AsyncIterator[WakeListener]:
    """A worker that listens and has fallen asleep."""
    async with listening(store, registration) as listener:
        await fall_asleep(store, registration)
        yield listener

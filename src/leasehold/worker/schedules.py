"""How a worker fires schedules: by a loop that the app hands in. Workers and schedulers don't know each other."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol

from leasehold.store import FireRound, NextFire, Store


class ScheduleLoop(Protocol):
    """A loop that fires schedules. Heartbeats and the worker's listener tell it when the next one fires."""

    def look(self) -> None: ...

    def expect(self, next_fire: timedelta | None) -> None: ...

    def hear(self, announced: NextFire) -> None: ...

    async def run(self) -> None: ...


MakeScheduleLoop = Callable[[Store], ScheduleLoop]
FireSchedules = Callable[[Store, Callable[[], bool]], Awaitable[FireRound]]
"""Fires what is due, round by round, until the function returns true."""


class NoSchedules:
    """Stands for the loop of a worker that fires no schedules."""

    def look(self) -> None: ...

    def expect(self, next_fire: timedelta | None) -> None: ...

    def hear(self, announced: NextFire) -> None: ...

    async def run(self) -> None: ...


async def fire_nothing(_store: Store, _is_over: Callable[[], bool]) -> FireRound:
    return FireRound(0, False, None)

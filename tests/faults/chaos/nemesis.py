"""Faults, drawn from a seed: which one, for which process and for how long. The moment is random."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from tests.faults.chaos.processes import WorkerProcess
from tests.proxy import Proxy

POINTS = ("before_run", "before_say", "before_heartbeat", "after_claim", "after_finish", "in_run")
BREATH = (0.1, 0.8)
TO_START = 20.0


class Fault(StrEnum):
    KILL = "kill -9, started again"
    STOP = "stopped past the lease"
    STOP_AT_FINISH = "stopped at its finish, past the lease"
    STOP_AT_POINT = "stopped at another point, past the lease"
    CUT = "connections cut"
    HOLD = "black hole"
    SWALLOW = "reply of a finish swallowed"
    TERMINATE = "a session terminated"
    RESTART = "immediate restart"
    STANDSTILL = "the server stands still"


OF_THE_SERVER = (Fault.TERMINATE, Fault.RESTART, Fault.STANDSTILL)


@dataclass(frozen=True)
class Planned:
    fault: Fault
    jitter: float


def plan(seed: int, count: int, lanes: int, shares: dict[Fault, int]) -> list[list[Planned]]:
    """One list of faults for each worker, and a last one for the server. Every kind occurs."""
    draw = random.Random(seed)
    kinds = list(shares)
    chosen = kinds + draw.choices(kinds, weights=list(shares.values()), k=count - len(kinds))
    draw.shuffle(chosen)
    planned: list[list[Planned]] = [[] for _ in range(lanes + 1)]
    for fault in chosen:
        lane = lanes if fault in OF_THE_SERVER else draw.randrange(lanes)
        planned[lane].append(Planned(fault, draw.random()))
    return planned


class Victim:
    """A worker's place: its process, begun again after each kill, and its way to the database.

    `finish` has bytes that a worker sends only with a finish.
    """

    def __init__(self, start: Callable[[], WorkerProcess], proxy: Proxy, lease: float, finish: bytes) -> None:
        self._start = start
        self._lease = lease
        self._finish = finish
        self._patience = max(4.0, lease)
        self.proxy = proxy
        self.process = start()
        self.died: list[str] = []

    async def suffer(self, planned: Planned) -> bool:
        """Whether it struck: a fault point may not be reached in time."""
        self.revive_if_dead()
        past_the_lease = self._lease * (1.3 + 0.5 * planned.jitter)
        match planned.fault:
            case Fault.KILL:
                self.process.kill()
                await asyncio.sleep(0.3 * planned.jitter)
                self.process = self._start()
            case Fault.STOP:
                await self._stand_still(past_the_lease)
            case Fault.STOP_AT_FINISH:
                return await self._stand_still_at("before_finish", past_the_lease)
            case Fault.STOP_AT_POINT:
                return await self._stand_still_at(POINTS[int(planned.jitter * len(POINTS))], past_the_lease)
            case Fault.CUT:
                self.proxy.cut()
            case Fault.HOLD:
                self.proxy.hold()
                await asyncio.sleep(self._lease * 2 * planned.jitter)
                self.proxy.heal()
            case Fault.SWALLOW:
                before = self.proxy.swallowed
                self.proxy.swallow(self._finish)
                struck = await within(self._patience, lambda: self.proxy.swallowed > before)
                self.proxy.heal()
                return struck
            case _:
                raise ValueError(planned)
        return True

    async def _stand_still(self, seconds: float) -> None:
        self.process.stop()
        await asyncio.sleep(seconds)
        self.process.resume()

    async def _stand_still_at(self, point: str, seconds: float) -> bool:
        if not await within(TO_START, self.process.hears):
            return False
        self.process.arm(f"{point}:stop")
        if not await within(self._patience, self.process.is_stopped):
            return False
        await asyncio.sleep(seconds)
        self.process.resume()
        return True

    def revive_if_dead(self) -> None:
        """No worker may end by itself, whatever happens to it; one that did is put on record."""
        if not self.process.lives():
            self.died.append(f"{self.process.ended_with}: {self.process.log[-2000:]}")
            self.process = self._start()

    def heal(self) -> None:
        self.proxy.heal()
        self.revive_if_dead()
        self.process.resume()


class Nemesis:
    def __init__(
        self,
        planned: list[list[Planned]],
        victims: list[Victim],
        shake: Callable[[Fault, float], Awaitable[None]],
        seed: int,
    ) -> None:
        self._planned = planned
        self._victims = victims
        self._shake_server = shake
        self._draw = random.Random(seed + 1)
        self.struck: Counter[Fault] = Counter()
        self.missed: Counter[Fault] = Counter()
        self.total = sum(map(len, planned))

    @property
    def progress(self) -> float:
        return (self.struck.total() + self.missed.total()) / max(1, self.total)

    async def rage(self) -> None:
        *lanes, of_the_server = self._planned
        async with asyncio.TaskGroup() as group:
            for victim, planned in zip(self._victims, lanes, strict=True):
                group.create_task(self._haunt(victim, planned))
            group.create_task(self._shake(of_the_server))

    async def _haunt(self, victim: Victim, planned: list[Planned]) -> None:
        for each in planned:
            await asyncio.sleep(self._draw.uniform(*BREATH))
            (self.struck if await victim.suffer(each) else self.missed)[each.fault] += 1

    async def _shake(self, planned: list[Planned]) -> None:
        """Spread over the run, as far as the others have come."""
        for number, each in enumerate(planned):
            await within(120, partial(self._others_have_come, number / (len(planned) + 1)))
            await self._shake_server(each.fault, each.jitter)
            self.struck[each.fault] += 1

    def _others_have_come(self, share: float) -> bool:
        all_that_they_will = self.struck.total() + self.missed.total() >= self.total - len(self._planned[-1])
        return self.progress >= share or all_that_they_will


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False

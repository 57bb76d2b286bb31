"""Statements of idle workers. All systems are measured at once: each has its own database."""

import asyncio
from contextlib import AsyncExitStack

from bench.children import Crew
from bench.server import Counters
from bench.stage import Place, Stage
from bench.systems import CannotMeasure

REST = 4.0


class Idle:
    name, once, compares = "idle", True, True

    async def round(self, stage: Stage) -> None:
        async with AsyncExitStack() as stack:
            places: list[Place] = []
            for system in stage.systems.values():
                async with stage.attempt(self.name, system.name):
                    place = await stack.enter_async_context(stage.place(system))
                    crew = await stack.enter_async_context(stage.working(place, 1))
                    await self._try_it_out(stage, place, crew)
                    places.append(place)
            await asyncio.sleep(min(REST, stage.sizes.idle_seconds))
            before = {place.name: await stage.server.counters(place.name) for place in places}
            await asyncio.sleep(stage.sizes.idle_seconds)
            for place in places:
                async with stage.attempt(self.name, place.system.name):
                    made = _statements(await stage.server.counters(place.name)) - _statements(before[place.name])
                    stage.book.add(self.name, place.system.name, made / stage.sizes.idle_seconds)

    async def _try_it_out(self, stage: Stage, place: Place, crew: Crew) -> None:
        """One job: a worker that is not there would be idle, too."""
        async with stage.producing(place) as producer:
            await producer.ask(stage.sizes.limit, do="one", count=1, wake=True)
        await crew.until(1, stage.sizes.limit)


def _statements(counters: Counters) -> float:
    if counters.statements is None:
        raise CannotMeasure("the server does not count statements: it needs pg_stat_statements")
    return counters.statements

"""The cost of enqueues: one by one, in bulk, and a hundred thousand in one call."""

import asyncio

from bench.job import TENANTS
from bench.stage import COUNTED, FEW, Place, Stage
from bench.systems import OURS


class OneByOne:
    name, once, compares = "enqueue", False, True

    async def round(self, stage: Stage) -> None:
        jobs = stage.sizes.one_by_one
        for system in [*stage.systems.values()] * stage.sizes.turns:
            async with stage.attempt(self.name, system.name), stage.place(system) as place:
                await measured(stage, place, self.name, do="one", count=jobs)


class Emit:
    """Ours: one event after the other that no trigger matches, in turns with plain enqueues."""

    name, once, compares = "emit", False, False

    async def round(self, stage: Stage) -> None:
        for _ in range(stage.sizes.turns):
            for measure, emit in (("emit", True), ("emit, an enqueue", False)):
                async with stage.attempt(measure, OURS), stage.place(stage.ours) as place:
                    await measured(stage, place, measure, do="one", count=stage.sizes.one_by_one, emit=emit)


class Bulk:
    name, once, compares = "bulk", False, True

    async def round(self, stage: Stage) -> None:
        jobs, call = stage.sizes.bulk, stage.sizes.bulk_call
        for system in [*stage.systems.values()] * stage.sizes.turns:
            async with stage.attempt(self.name, system.name), stage.place(system) as place:
                await measured(stage, place, self.name, do="many", count=jobs, call=call)


class OneCall:
    """Ours: memory at its peak, against what a mere list of the jobs takes, each in a process of its own."""

    name, once, compares = "one call", False, False

    async def round(self, stage: Stage) -> None:
        jobs = stage.sizes.one_call
        async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
            held, _ = await self._memory(stage, place, do="many", count=jobs, call=jobs, only_bind=True)
            taken, rate = await self._memory(stage, place, do="many", count=jobs, call=jobs)
            stage.book.add("one call, MB for a list of the jobs", OURS, held)
            stage.book.add("one call, MB for the call", OURS, taken)
            stage.book.add("one call, jobs/s", OURS, rate)

    async def _memory(self, stage: Stage, place: Place, **asked: object) -> tuple[float, float]:
        async with stage.producing(place) as producer:
            before = await producer.ask(stage.sizes.limit, do="one", count=1)
            after = await producer.ask(stage.sizes.limit, **asked)
            return after["peak_mb"] - before["peak_mb"], stage.sizes.one_call / after["seconds"]


async def measured(stage: Stage, place: Place, measure: str, count: int, **asked: object) -> None:
    """Warmed up, each of the hundred tenants seen once; then timed by the producer itself."""
    async with stage.producing(place) as producer:
        await producer.ask(stage.sizes.limit, do="one", count=TENANTS)
        await stage.settle(place)
        await asyncio.sleep(COUNTED)
        await producer.ask(stage.sizes.limit, do="one", count=FEW)
        reading = await stage.begin(place, [producer.pid])
        answer = await producer.ask(stage.sizes.limit, count=count, **asked)
        costs = await reading.end(count, producer.stop)
        stage.book.add(measure, place.system.name, count / answer["seconds"], costs)

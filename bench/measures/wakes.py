"""The cost of wakes for many producers at once: with wakes and without."""

import asyncio
from contextlib import AsyncExitStack

from bench.stage import Stage
from bench.states import without_wakes, worker_joined
from bench.systems import OURS, How

PROCESSES = 4
# So that it runs the jobs meanwhile, as the listening one does. Polling every two seconds, the default, it left up to
# all of 8,000 for later, and producers seemed faster by a tenth, for the work that was not done.
OFTEN = 0.1


class Producers:
    """With nobody to be woken but one who serves something else; and with a worker that runs the jobs meanwhile."""

    name, once, compares = "producers", False, False

    async def round(self, stage: Stage) -> None:
        for measure, wakes, worker in (
            ("producers, wakes off", False, None),
            ("producers, wakes on", True, {"key": "something-else"}),
            ("producers, wakes off, a worker polls", False, {"notify": False, "fallback": OFTEN}),
            ("producers, wakes on, a worker listens", True, {}),
        ) * stage.sizes.turns:
            async with stage.attempt(measure, OURS):
                await self._produce(stage, measure, wakes, worker)

    async def _produce(self, stage: Stage, measure: str, wakes: bool, worker: How | None) -> None:
        jobs, at_once = stage.sizes.produced // PROCESSES, stage.sizes.producers // PROCESSES
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(stage.place(stage.ours))
            if not wakes:
                await without_wakes(place)
            if worker is not None:
                working = stage.working(place, 2 * stage.sizes.produced, **worker)
                await worker_joined(stage, place, await stack.enter_async_context(working))
            producers = await stack.enter_async_context(stage.all_producing(place, PROCESSES))
            for producer in producers:
                await producer.ask(stage.sizes.limit, do="one", count=50, at_once=at_once)
            await stage.settle(place)
            answers = await asyncio.gather(
                *(producer.ask(stage.sizes.limit, do="one", count=jobs, at_once=at_once) for producer in producers)
            )
            stage.book.add(measure, OURS, sum(jobs / answer["seconds"] for answer in answers))

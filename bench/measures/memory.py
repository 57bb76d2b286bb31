"""Ours: what a worker's memory does over a million jobs."""

from bench.processor import own_memory
from bench.stage import Stage
from bench.states import queue
from bench.systems import OURS


class Memory:
    name, once, compares = "memory", True, False

    async def round(self, stage: Stage) -> None:
        jobs = stage.sizes.memory
        async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
            await queue(stage, place, jobs)
            async with stage.working(place, jobs) as crew:
                await crew.until(jobs // 20, stage.sizes.limit)
                at_first = own_memory(crew.pids[0])
                for part in range(2, 21):
                    await crew.until(part * jobs // 20, 4 * stage.sizes.limit)
                    stage.book.point("memory", part * jobs / 20, own_memory(crew.pids[0]))
                stage.book.add("memory, MB at first", OURS, at_first)
                stage.book.add("memory, MB grown", OURS, own_memory(crew.pids[0]) - at_first)

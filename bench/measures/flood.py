"""Ours: one tenant floods the queue, and all the others have a few jobs behind that."""

from bench.measures.growth import some_drained
from bench.stage import Stage
from bench.states import queue
from bench.systems import OURS
from bench.tape import Start

SMALL = 10
FLOODER = 0


class Flood:
    name, once, compares = "flood", False, False

    async def round(self, stage: Stage) -> None:
        jobs, others = stage.sizes.flood, stage.sizes.flooded
        looked_at = others * SMALL + stage.sizes.drain
        async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
            await queue(stage, place, jobs, tenants=1, first=FLOODER)
            await queue(stage, place, others * SMALL, tenants=others, first=FLOODER + 1)
            async with stage.working(place, stage.sizes.most) as crew:
                await crew.until(min(looked_at, jobs), stage.sizes.limit)
                starts = crew.starts()[:looked_at]
            self._write_down(stage, starts, others)
        async with stage.attempt("flood, one tenant alone", OURS), stage.place(stage.ours) as place:
            await queue(stage, place, jobs, tenants=1, first=FLOODER)
            rate = await some_drained(stage, place, min(looked_at, jobs))
            stage.book.add("flood, one tenant alone", OURS, rate)

    def _write_down(self, stage: Stage, starts: list[Start], others: int) -> None:
        first: dict[int, tuple[int, int]] = {}
        of_the_flooder = 0
        for place, start in enumerate(starts, 1):
            of_the_flooder += start.number == FLOODER
            first.setdefault(start.number, (place, of_the_flooder))
        first.pop(FLOODER, None)
        all_began = len(first) == others
        late = max(behind for _, behind in first.values()) if all_began else of_the_flooder
        stage.book.add("flood, the flooder's starts before every tenant's first", OURS, late)
        stage.book.add("flood, tenants without a start", OURS, others - len(first))
        seconds = (starts[-1].at - starts[0].at) / 1e9
        stage.book.add(self.name, OURS, (len(starts) - 1) / seconds)
        stage.book.series["flood"] = [(tenant, place) for tenant, (place, _) in sorted(first.items())]

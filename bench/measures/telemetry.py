"""The cost of the event stream: the processor time of a job with and without listeners, in turn."""

from collections.abc import Awaitable, Callable

from bench.job import TENANTS
from bench.listeners import ALL, CONTROL, IDLE, LISTENERS
from bench.measures.drain import emptied
from bench.measures.rollup import cost_of_single_jobs, processor_time
from bench.stage import Stage
from bench.systems import OURS

# One drain differs from itself by some percent: of so many in turn the middle one counts.
TURNS = 3
DRAINED, ONE_BY_ONE = "drained", "one by one"


class Telemetry:
    """Ours: no-op jobs without listeners, with each of them, and with all that a service has in production.

    Jobs that are enqueued in bulk and drained are the cheapest that there are; jobs that are enqueued one by one, and
    run at once, are what most services have. Each turn has runs with listeners between two of the control, whose mean
    they are compared with, so that a machine that slows down makes no listener dear.
    """

    name, once, compares = "telemetry", False, False

    async def round(self, stage: Stage) -> None:
        names = [*IDLE, *LISTENERS, ALL]
        for turn in range(TURNS if stage.sizes.turns > 1 else 1):
            ordered = names if turn % 2 else names[::-1]
            await self._compare(stage, DRAINED, ordered, self._drain)
            used = [name for name in ordered if name not in IDLE]
            await self._compare(stage, ONE_BY_ONE, used, self._one_by_one)

    async def _compare(
        self, stage: Stage, kind: str, names: list[str], run: Callable[[Stage, str], Awaitable[float]]
    ) -> None:
        before = await self._measure(stage, kind, CONTROL, run)
        for name in names:
            with_listener = await self._measure(stage, kind, name, run)
            after = await self._measure(stage, kind, CONTROL, run)
            if before and after and with_listener:
                added = with_listener - (before + after) / 2
                stage.book.add(f"telemetry, {kind}, µs added by {name}", OURS, added)
                stage.book.add(f"telemetry, {kind}, % added by {name}", OURS, 200 * added / (before + after))
                stage.book.add(f"telemetry, {kind}, % between two controls", OURS, 100 * abs(after / before - 1))
            before = after

    async def _measure(
        self, stage: Stage, kind: str, name: str, run: Callable[[Stage, str], Awaitable[float]]
    ) -> float | None:
        time = None
        async with stage.attempt(f"{self.name}, {kind}, {name}", OURS):
            time = await run(stage, name)
            stage.book.add(f"telemetry, {kind}, µs of a job, {name}", OURS, time)
        return time

    async def _drain(self, stage: Stage, name: str) -> float:
        """Returns the processor time of a job in µs, the worker's and the server's."""
        jobs = stage.sizes.drain
        async with stage.place(stage.ours) as place:
            await stage.fill(place, jobs, call=max(1, jobs // TENANTS))
            async with stage.working(place, jobs, listeners=name) as crew:
                await crew.until(1, stage.sizes.limit, pause=0.0005)
                reading = await stage.begin(place, crew.pids)
                await emptied(stage, place, crew, jobs)
                return processor_time(await reading.end(jobs, crew.stop))

    async def _one_by_one(self, stage: Stage, name: str) -> float:
        return await cost_of_single_jobs(stage, listeners=name)

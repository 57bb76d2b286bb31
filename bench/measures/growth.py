"""Ours, as things grow: the backlog, the history, the lanes, and what nobody can clear away."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace

from bench.measures.drain import rate_of
from bench.stage import Place, Stage
from bench.states import CLAIM, finished, old_snapshot, queue, waiting
from bench.systems import OURS, RAW, System
from bench.tape import Start

PIECES = 40
MOST_DEFINITIONS = 10


class Backlog:
    """A part of the backlog is worked off, and filled up again for the next round."""

    name, once, compares = "backlog", False, False

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}

    async def round(self, stage: Stage) -> None:
        for backlog in stage.sizes.backlogs:
            measure = f"{self.name} {backlog}"
            if backlog not in self._places:
                self._places[backlog] = await stage.kept(stage.place(stage.ours))
            for place in both(stage, self._places[backlog]):
                async with stage.attempt(measure, place.system.name):
                    await queue(stage, place, backlog - await waiting(place))
                    rate = await some_drained(stage, place, min(backlog, stage.sizes.drain))
                    stage.book.add(measure, place.system.name, rate)


class History:
    """The same drain beside ever more jobs that have ended."""

    name, once, compares = "history", False, False

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}

    async def round(self, stage: Stage) -> None:
        for history in stage.sizes.histories:
            measure = f"{self.name} {history}"
            if history not in self._places:
                stage.say(f"{measure}: filling")
                self._places[history] = await stage.kept(stage.place(stage.ours))
                await finished(stage, self._places[history], history)
            for place in both(stage, self._places[history]):
                async with stage.attempt(measure, place.system.name):
                    await queue(stage, place, stage.sizes.drain - await waiting(place))
                    rate = await some_drained(stage, place, stage.sizes.drain)
                    stage.book.add(measure, place.system.name, rate)


class Lanes:
    """The same number of jobs in more and more lanes; the most of them once more under an old snapshot."""

    name, once, compares = "lanes", False, False

    async def round(self, stage: Stage) -> None:
        for lanes in stage.sizes.lanes:
            await self._drain(stage, lanes, f"{self.name} {lanes}", snapshot=False)
        await self._drain(stage, lanes, f"{self.name} {lanes}, old snapshot", snapshot=True)

    async def _drain(self, stage: Stage, lanes: int, measure: str, snapshot: bool) -> None:
        definitions = MOST_DEFINITIONS if lanes > 1_000 else 1
        async with stage.attempt(measure, OURS), stage.place(stage.ours) as place:
            await queue(stage, place, stage.sizes.lanes_jobs, lanes // definitions, definitions=definitions)
            async with old_snapshot(place) if snapshot else nullcontext():
                rate = await some_drained(stage, place, stage.sizes.lanes_jobs, definitions=definitions)
            stage.book.add(measure, OURS, rate)


class Snapshot:
    """Somebody looks at the database all the while: nothing that is dead can be cleared away."""

    name, once, compares = "snapshot", False, False

    async def round(self, stage: Stage) -> None:
        for name in (OURS, RAW):
            # Raw has no marks and slows down with every job: once shows it, and takes long enough.
            if name in stage.systems and (name == OURS or not stage.book.tried(self.name, RAW)):
                async with stage.attempt(self.name, name):
                    await self._drain(stage, stage.systems[name])

    async def _drain(self, stage: Stage, system: System) -> None:
        jobs = stage.sizes.snapshot
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(stage.place(system))
            await queue(stage, place, jobs)
            await stack.enter_async_context(old_snapshot(place))
            crew = await stack.enter_async_context(stage.working(place, jobs))
            times = []
            for quarter in (1, 2, 3, 4):
                await crew.until(jobs * quarter // 4, stage.sizes.limit)
                times.append(await stage.server.timing(place.name, CLAIM))
            starts = crew.starts()
        stage.book.add(self.name, system.name, rate_of(starts))
        stage.book.add("snapshot, a claim in the first quarter", system.name, times[0].mean)
        stage.book.add("snapshot, a claim in the last quarter", system.name, times[3].since(times[2]).mean)
        stage.book.series[f"snapshot, {system.name}"] = list(over_time(starts))


def both(stage: Stage, place: Place) -> Iterator[Place]:
    """The same database for us, and for our own SQL driven raw."""
    for name in (OURS, RAW):
        if name in stage.systems:
            yield replace(place, system=stage.systems[name])


async def some_drained(stage: Stage, place: Place, jobs: int, definitions: int = 1) -> float:
    """Jobs per second over the first so many starts."""
    async with stage.working(place, stage.sizes.most, definitions=definitions) as crew:
        await crew.until(jobs, stage.sizes.limit)
        return rate_of(crew.starts()[:jobs])


def over_time(starts: list[Start]) -> Iterator[tuple[float, float]]:
    """The rate in pieces: seconds since the first start, jobs per second."""
    size = max(2, len(starts) // PIECES)
    for first in range(0, len(starts) - size + 1, size):
        piece = starts[first : first + size]
        yield (piece[-1].at - starts[0].at) / 1e9, rate_of(piece)

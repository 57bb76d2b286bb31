"""How fast workers empty a queue of no-op jobs."""

import re
from time import monotonic_ns
from typing import Any

from bench.children import Crew
from bench.job import TENANTS
from bench.stage import Place, Stage, until
from bench.systems import OURS, System
from bench.tape import Start
from leasehold.engines.postgres.statements import statements

SHORT = 5.0  # seconds: what disturbs the machine for a moment would decide such a sample
_VALUE = re.compile(r"\$\d+|'[^']*'|\b\d+\b|\bnull\b|\btrue\b|\bfalse\b")


class Drain:
    """All systems, jobs of a hundred tenants, one worker process. A drain of a few seconds is taken several times."""

    name, once, compares = "drain", False, True

    async def round(self, stage: Stage) -> None:
        for turn in range(stage.sizes.turns):
            for system in stage.systems.values():
                if turn and not _is_short(stage, system):
                    continue
                async with stage.attempt(self.name, system.name):
                    await drained(stage, system, self.name, TENANTS)


class Tenants:
    """Ours: the same drain of fewer tenants. Peers know no tenants, so theirs is the one drain."""

    name, once, compares = "tenants", False, False

    async def round(self, stage: Stage) -> None:
        for tenants in stage.sizes.drain_tenants * stage.sizes.turns:
            measure = f"drain, {tenants} tenants"
            async with stage.attempt(measure, OURS):
                await drained(stage, stage.ours, measure, tenants)


class Polling:
    """Ours: the same drain by a worker that listens and by one that polls."""

    name, once, compares = "polling", False, False

    async def round(self, stage: Stage) -> None:
        for measure, notify in (("drain, woken", True), ("drain, polling", False)) * stage.sizes.turns:
            async with stage.attempt(measure, OURS):
                await drained(stage, stage.ours, measure, TENANTS, notify=notify)


class Processes:
    """Ours, with one worker process and more."""

    name, once, compares = "processes", False, False

    async def round(self, stage: Stage) -> None:
        jobs = 2 * stage.sizes.drain
        for processes in stage.sizes.processes:
            async with stage.attempt(f"{self.name} {processes}", OURS), stage.place(stage.ours) as place:
                await stage.fill(place, jobs)
                async with stage.working(place, jobs, processes) as crew:
                    await emptied(stage, place, crew, jobs)
                    stage.book.add(f"{self.name} {processes}", OURS, rate_of(crew.starts()))


def _is_short(stage: Stage, system: System) -> bool:
    rate = stage.book.value(Drain.name, system.name)
    return rate is not None and stage.sizes.drain / rate < SHORT


async def drained(stage: Stage, system: System, measure: str, tenants: int, **how: Any) -> None:
    """One sample: jobs per second, from the first start until no job is left."""
    jobs = stage.sizes.drain
    async with stage.place(system) as place:
        await stage.fill(place, jobs, call=max(1, jobs // tenants))
        await stage.server.forget_statements(place.name)
        async with stage.working(place, jobs, **how) as crew:
            await crew.until(1, stage.sizes.limit, pause=0.0005)
            reading = await stage.begin(place, crew.pids)
            await emptied(stage, place, crew, jobs)
            seconds = (monotonic_ns() - crew.starts()[0].at) / 1e9
            costs = await reading.end(jobs, crew.stop)
        stage.book.add(measure, system.name, jobs / seconds, costs)
        if measure == Drain.name and system.name == OURS:
            slowest = await stage.server.slowest(place.name)
            stage.book.slowest = [{**row, "name": name_of(row["query"])} for row in slowest]


async def emptied(stage: Stage, place: Place, crew: Crew, jobs: int) -> None:
    """Waits until so many jobs have started and none is left."""

    async def none_left() -> bool:
        return not await place.unfinished()

    await crew.until(jobs, stage.sizes.limit)
    await until(none_left, stage.sizes.limit, "the end of all jobs")


def name_of(query: str) -> str:
    """The file that one of our statements comes from. The server has put numbers for the constants in it."""
    shapes = {_shape(statement.text): name for name, statement in statements("leasehold").items()}
    return shapes.get(_shape(query), " ".join(query.split())[:60])


def _shape(query: str) -> str:
    return " ".join(_VALUE.sub("?", query).split())


def rate_of(starts: list[Start]) -> float:
    """Jobs per second, from the first start to the last."""
    return (len(starts) - 1) / ((starts[-1].at - starts[0].at) / 1e9)

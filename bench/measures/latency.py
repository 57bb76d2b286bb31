"""How long a job waits: for an idle worker, for its time, and behind a backlog."""

import asyncio
from random import random
from time import monotonic

from bench.book import percentile
from bench.children import Child, Crew
from bench.measures.drain import emptied
from bench.stage import COUNTED, FEW, Stage
from bench.states import CLAIM, queue
from bench.systems import OURS, RAW, System

WARM_UP = 10
# Long enough for every worker to be at rest again.
REST = 0.03
URGENT = 1
# One that the producer knows after the warm-up, as it does in an app that has been up for a while.
TENANT = "tenant-00000"


class Latency:
    """From the call that enqueues to the handler's start, one job at a time."""

    name, once, compares = "latency", False, True

    async def round(self, stage: Stage) -> None:
        for system in stage.systems.values():
            async with stage.attempt(self.name, system.name):
                await self._ping(stage, system)

    async def _ping(self, stage: Stage, system: System) -> None:
        pings = stage.sizes.pings
        async with (
            stage.place(system) as place,
            stage.working(place, pings + WARM_UP + FEW) as crew,
            stage.producing(place) as producer,
        ):
            await _pings(stage, crew, producer, WARM_UP)
            await asyncio.sleep(COUNTED)
            await _pings(stage, crew, producer, FEW)
            reading = await stage.begin(place, crew.pids)
            await _pings(stage, crew, producer, pings)
            waited = [start.waited_ms for start in crew.starts()[WARM_UP + FEW :]]
            costs = await reading.end(pings, crew.stop)
        stage.book.add("latency p50", system.name, percentile(waited, 0.5), costs)
        stage.book.add("latency p99", system.name, percentile(waited, 0.99))


async def _pings(stage: Stage, crew: Crew, producer: Child, count: int, **how: object) -> int:
    """Returns when the last one's commit was sent."""
    sent = 0
    for _ in range(count):
        answer = await producer.ask(stage.sizes.limit, do="one", count=1, tenant=TENANT, wake=True, **how)
        sent = answer.get("committing") or 0
        await crew.one_more(stage.sizes.limit)
        await asyncio.sleep(REST * (1 + random()))
    return sent


class Asleep:
    """Ours: the time of one enqueue call, while a worker sleeps that it has to wake, and without any worker."""

    name, once, compares = "asleep", False, False

    async def round(self, stage: Stage) -> None:
        for _ in range(stage.sizes.turns):
            async with stage.attempt("enqueue, no worker sleeps, ms", OURS):
                await self._call(stage, "enqueue, no worker sleeps, ms", workers=0)
            async with stage.attempt("enqueue, a worker sleeps, ms", OURS):
                await self._call(stage, "enqueue, a worker sleeps, ms", workers=1)

    async def _call(self, stage: Stage, measure: str, workers: int) -> None:
        calls = max(1, stage.sizes.pings // stage.sizes.turns)
        taken: list[float] = []
        async with (
            stage.place(stage.ours) as place,
            stage.working(place, calls + WARM_UP, workers) as crew,
            stage.producing(place) as producer,
        ):
            for _ in range(WARM_UP + calls):
                answer = await producer.ask(stage.sizes.limit, do="one", count=1, tenant=TENANT)
                taken.append(1000 * answer["seconds"])
                if workers:
                    await crew.one_more(stage.sizes.limit)
                await asyncio.sleep(REST * (1 + random()))
        stage.book.add(measure, OURS, percentile(taken[WARM_UP:], 0.5))


class WakeToStart:
    """Ours and raw: from the sending of a wake, for a job that is committed already, to the handler's start."""

    name, once, compares = "wake", False, True

    async def round(self, stage: Stage) -> None:
        for name in (RAW, OURS):
            if name in stage.systems:
                async with stage.attempt("wake to start", name):
                    await self._wake(stage, stage.systems[name])

    async def _wake(self, stage: Stage, system: System) -> None:
        pings = stage.sizes.pings
        async with (
            stage.place(system) as place,
            stage.working(place, pings + WARM_UP) as crew,
            stage.producing(place) as producer,
        ):
            sent = [await _pings(stage, crew, producer, 1, silently=True) for _ in range(WARM_UP + pings)]
            starts = {start.number: start.at for start in crew.starts()}
        waited = [(starts[number] - moment) / 1e6 for number, moment in enumerate(sent)][WARM_UP:]
        stage.book.add("wake to start p50", system.name, percentile(waited, 0.5))
        stage.book.add("wake to start p99", system.name, percentile(waited, 0.99))


class Hundred:
    """Ours: a hundred jobs by one call to an idle worker, until the last one is done."""

    name, once, compares = "hundred", False, False

    async def round(self, stage: Stage) -> None:
        for _ in range(stage.sizes.turns):
            async with (
                stage.attempt("100 jobs", OURS),
                stage.place(stage.ours) as place,
                stage.working(place, 100 + WARM_UP) as crew,
                stage.producing(place) as producer,
            ):
                await _pings(stage, crew, producer, WARM_UP)
                began = monotonic()
                await producer.ask(stage.sizes.limit, do="many", count=100, call=100)
                await emptied(stage, place, crew, 100 + WARM_UP)
                stage.book.add("100 jobs, seconds", OURS, monotonic() - began)


class Committed:
    """Ours: from the sending of a commit, the caller's own or that of the enqueue itself, to the handler's start."""

    name, once, compares = "commit", False, False

    async def round(self, stage: Stage) -> None:
        pings = stage.sizes.pings
        async with (
            stage.attempt(self.name, OURS),
            stage.place(stage.ours) as place,
            stage.working(place, WARM_UP + 2 * pings) as crew,
            stage.producing(place) as producer,
        ):
            await _pings(stage, crew, producer, WARM_UP)
            sent = [await _pings(stage, crew, producer, 1, within=number % 2) for number in range(2 * pings)]
            starts = {start.number: start.at for start in crew.starts()}
        waited = [(starts[number] - moment) / 1e6 for number, moment in enumerate(sent, WARM_UP)]
        stage.book.add("commit to start, enqueued alone, p50", OURS, percentile(waited[::2], 0.5))
        stage.book.add("commit to start, within a transaction, p50", OURS, percentile(waited[1::2], 0.5))


class Due:
    """Ours: how late jobs start that were enqueued for a later moment, with no timer but the worker's own sleep."""

    name, once, compares = "due", False, False

    async def round(self, stage: Stage) -> None:
        jobs = stage.sizes.due
        within = 2 + jobs / 20
        async with (
            stage.attempt(self.name, OURS),
            stage.place(stage.ours) as place,
            stage.working(place, jobs) as crew,
            stage.producing(place) as producer,
        ):
            due_in = [2 + jobs / 200 + random() * within for _ in range(jobs)]
            await producer.ask(stage.sizes.limit, do="one", count=jobs, due_in=due_in)
            reading = await stage.begin(place, crew.pids)
            await crew.until(jobs, stage.sizes.limit)
            late = [start.waited_ms for start in crew.starts()]
            stage.book.add("due p50", OURS, percentile(late, 0.5), await reading.end(jobs, crew.stop))
            stage.book.add("due p99", OURS, percentile(late, 0.99))


class Urgent:
    """Ours: jobs of priority 1 while a backlog is worked off, each from its commit to its start."""

    name, once, compares = "urgent", False, False

    async def round(self, stage: Stage) -> None:
        for name, tenants in (("one tenant", 1), ("100 tenants", 100)) * stage.sizes.turns:
            async with stage.attempt(f"urgent, {name}", OURS):
                await self._hurry(stage, name, tenants)

    async def _hurry(self, stage: Stage, name: str, tenants: int) -> None:
        backlog, most = stage.sizes.urgent_backlog, 1_000
        urgently = {"do": "one", "count": 1, "priority": URGENT, "tenant": TENANT}
        async with stage.place(stage.ours) as place:
            await queue(stage, place, backlog, tenants, first=0)
            async with stage.producing(place) as producer, stage.working(place, backlog + most) as crew:
                await producer.ask(stage.sizes.limit, **urgently)
                await crew.until(backlog // 20, stage.sizes.limit)
                committed: list[int] = []
                while crew.handled < 0.9 * backlog and len(committed) < most:
                    answer = await producer.ask(stage.sizes.limit, **urgently)
                    committed.append(answer["returned"])
                    await asyncio.sleep(0.005 * (1 + random()))
                await crew.until(backlog + 1 + len(committed), stage.sizes.limit)
                starts = {start.number: start.at for start in crew.starts() if start.sent}
                claim = await stage.server.timing(place.name, CLAIM)
        waited = [max(0, starts[number + 1] - at) / 1e6 for number, at in enumerate(committed)]
        stage.book.add(f"urgent, {name}, p50", OURS, percentile(waited, 0.5))
        stage.book.add(f"urgent, {name}, p99", OURS, percentile(waited, 0.99))
        stage.book.add(f"urgent, {name}, a claim takes", OURS, claim.mean)

"""The cost of figures for charts: to add up a job, beside the enqueue and the run of the same job."""

from datetime import timedelta
from typing import Any

from bench import processor
from bench.book import Costs
from bench.job import TENANTS
from bench.measures.drain import emptied
from bench.stage import Place, Stage
from bench.systems import OURS, CannotMeasure
from leasehold.engines import engine_for
from leasehold.store import Subscription, WorkerFacts

LEASE = timedelta(minutes=1)
# With this clock, jobs of this very minute are added up at once.
AHEAD, NOW = "2 minutes", "0"
CLOCK = """
    create or replace function leasehold.clock() returns timestamptz language sql volatile parallel safe
    as $$ select clock_timestamp() + interval '{}' $$
"""
BACK = "update leasehold.series_progress set minutes = date_trunc('minute', clock_timestamp()) - interval '5 minutes'"

# A percent of the processor time has to be told: so many times the jobs that others enqueue one by one.
SINGLE = 4

NOTED = """
    update leasehold.series_progress
    set usage_until = clock_timestamp() - interval '5 minutes', noted_at = clock_timestamp() + interval '1 minute',
        noted_by = '3'::xid8
"""


class RollUp:
    """Ours: a bulk enqueue and a drain, then their roll-up before a vacuum has cleared anything away.

    Minutes without jobs come first: the cost to plan a roll-up does not grow with the jobs, and is subtracted. A
    minute has 100,000 jobs: at the rate of the drain it would have a million. One heartbeat comes between, as three
    do in each minute. It is not counted: it passes over the index entries of running jobs that have ended, which a
    roll-up would have to do if it came first.
    """

    name, once, compares = "rollup", False, False

    async def round(self, stage: Stage) -> None:
        for _ in range(stage.sizes.turns):
            async with stage.attempt(self.name, OURS), stage.place(stage.ours) as place:
                first, empty = await roll_up(place), await roll_up(place)
                job = await self._enqueue(stage, place) + await self._drain(stage, place)
                await beat(place)
                added = 1e6 * (await roll_up(place) - empty) / stage.sizes.rolled_up
                used = 1e6 * await add_up_usage(place) / stage.sizes.rolled_up
                stage.book.add("rollup, µs to add it to the usage", OURS, used)
                stage.book.add("rollup, ms of a minute without jobs, on a new connection", OURS, 1000 * first)
                stage.book.add("rollup, ms of a minute without jobs", OURS, 1000 * empty)
                stage.book.add("rollup, µs to enqueue and run a job", OURS, job)
                stage.book.add("rollup, µs to add it up", OURS, added)
                stage.book.add("rollup, % of the processor time of a job", OURS, 100 * added / job)
                single = await cost_of_single_jobs(stage)
                stage.book.add("rollup, µs of a job that is enqueued alone", OURS, single)
                stage.book.add(
                    "rollup, % of the processor time of a job that is enqueued alone", OURS, 100 * added / single
                )

    async def _enqueue(self, stage: Stage, place: Place) -> float:
        jobs = stage.sizes.rolled_up
        async with stage.producing(place) as producer:
            await producer.ask(stage.sizes.limit, do="one", count=TENANTS)
            reading = await stage.begin(place, [producer.pid])
            await producer.ask(stage.sizes.limit, do="many", count=jobs, call=stage.sizes.bulk_call)
            return processor_time(await reading.end(jobs, producer.stop))

    async def _drain(self, stage: Stage, place: Place) -> float:
        jobs = stage.sizes.rolled_up + TENANTS
        async with stage.working(place, jobs) as crew:
            await crew.until(1, stage.sizes.limit, pause=0.0005)
            reading = await stage.begin(place, crew.pids)
            await emptied(stage, place, crew, jobs)
            return processor_time(await reading.end(jobs, crew.stop))


async def cost_of_single_jobs(stage: Stage, **how: Any) -> float:
    """Returns the processor time in µs of a job that is enqueued alone and run at once: all that take part in it."""
    jobs = SINGLE * stage.sizes.one_by_one
    async with (
        stage.place(stage.ours) as place,
        stage.working(place, jobs + TENANTS, **how) as crew,
        stage.producing(place, **how) as producer,
    ):
        await producer.ask(stage.sizes.limit, do="one", count=TENANTS)
        await crew.until(TENANTS, stage.sizes.limit)
        reading = await stage.begin(place, [*crew.pids, producer.pid])
        await producer.ask(stage.sizes.limit, do="one", count=jobs)
        await crew.until(jobs + TENANTS, stage.sizes.limit)
        return processor_time(await reading.end(jobs, crew.stop))


async def beat(place: Place) -> None:
    """Sends one heartbeat, as each worker does every 20 s while jobs run."""
    store = await engine_for(place.url).open()
    try:
        facts = WorkerFacts("bench", 0, "bench", 1)
        registration = await store.join(Subscription(("bench",), None), facts, LEASE)
        await store.renew(registration, (), LEASE)
        await store.leave(registration)
    finally:
        await store.close()


async def roll_up(place: Place) -> float:
    """Returns the seconds of processor time to add up the last minutes."""
    return await _add_up(place, BACK, "select leasehold.roll_up()")


async def add_up_usage(place: Place) -> float:
    """Returns the seconds of processor time to add up the usage of the last minutes."""
    return await _add_up(place, NOTED, "select leasehold.add_up_usage()")


async def _add_up(place: Place, begin: str, statement: str) -> float:
    """Measures the observer's connection."""
    pid = place.observer.get_server_pid()
    await place.observer.execute(CLOCK.format(AHEAD))
    await place.observer.execute(begin)
    before = processor.precisely_used_by(pid)
    while await place.observer.fetchval(statement):
        continue
    after = processor.precisely_used_by(pid)
    await place.observer.execute(CLOCK.format(NOW))
    if before is None or after is None:
        raise CannotMeasure("the processor time of a session can't be told here")
    return after - before


def processor_time(costs: Costs) -> float:
    if costs.server is None or costs.client is None:
        raise CannotMeasure("the processor time of the server can't be told here")
    return costs.server + costs.client

"""The cost of a handler on the loop, in a thread, and in a process of its own."""

from dataclasses import dataclass
from time import perf_counter

from bench.isolation_app import app, coroutine, process, thread
from bench.stage import Stage, until
from bench.systems import OURS
from leasehold import Pause, Scope, ScopeKind, Status, WorkerSettings

TENANT = "tenant-00000"
SLOTS = 4
KINDS = {"a coroutine": coroutine, "a thread": thread, "a process": process}


@dataclass(frozen=True)
class Cost:
    """Milliseconds: of the first job, a process that is started included, and of each of many more."""

    first: float
    each: float


class Isolation:
    """Ours: a worker with four slots drains jobs that do nothing, in each kind of handler."""

    name, once, compares = "isolation", False, False

    async def round(self, stage: Stage) -> None:
        for kind in KINDS:
            measure = f"isolation, ms per job in {kind}"
            async with stage.attempt(measure, OURS), stage.place(stage.ours) as place:
                cost = await cost_of(place.url, kind, stage.sizes.isolation, stage.sizes.limit)
                stage.book.add(measure, OURS, cost.each)
                if kind == "a process":
                    stage.book.add("isolation, ms of the first job in a process", OURS, cost.first)


async def cost_of(url: str, kind: str, jobs: int, limit: float) -> Cost:
    """Runs one job, then as many as there are slots, so that all processes are warm, then so many at once."""
    definition, scope = KINDS[kind], Scope(ScopeKind.TENANT, TENANT)
    with app.override(url=url):
        async with app.open(worker=WorkerSettings(slots=SLOTS)):
            tenant = app.tenant(TENANT)

            async def drain(count: int) -> float:
                await app.store.pause(scope, Pause("being filled"))
                await tenant.aenqueue_many(definition.bind(number) for number in range(count))
                began = perf_counter()
                await app.store.pause(scope, None)
                await until(is_empty, limit, f"the drain of jobs in {kind}")
                return 1000 * (perf_counter() - began)

            async def is_empty() -> bool:
                counts = await tenant.jobs.acounts(1)
                return not (counts[Status.QUEUED] or counts[Status.RUNNING])

            first = await drain(1)
            await drain(10 * SLOTS)
            return Cost(first, await drain(jobs) / jobs)

"""A second tenant beside every test, with the same definitions, dedupe keys and ids. Nobody may touch its jobs."""

from dataclasses import dataclass
from datetime import timedelta

from tests.store.bench import BROUGHT_ID, DAY, KEY, Bench, EngineUnderTest, all_jobs, keyed

from leasehold.model.dedupe import Always, Within
from leasehold.model.job import Attempt, JobId, JobRecord, Line, NewJob, tenant_id
from leasehold.model.status import Status
from leasehold.store import Store

BYSTANDER = tenant_id("bystander")
CORRELATION = "the-correlation"

FAR = timedelta(days=3650)
"""Beyond any move of the clock: what lies so far ahead is neither due, nor expired, when a test has ended."""


@dataclass(frozen=True)
class Belongings:
    """Everything that the bystander's door shows."""

    jobs: dict[JobId, JobRecord]
    counts: dict[Status, int]
    attempts: dict[JobId, list[Attempt]]
    lines: dict[tuple[JobId, int], list[Line]]


async def settle_in(engine: EngineUnderTest) -> None:
    """A dead letter, a running job that spoke, and jobs that wait, with and without keys.

    None of what ended is ever pruned, no lease runs out, and all that runs is a `report`: caps on `email` are free
    for the tests.
    """
    bench = Bench(engine, BYSTANDER)
    await bench.door.enqueue(
        [
            NewJob(definition="report", max_attempts=1, dedupe=keyed(Always(), f"{KEY}-always")),
            NewJob(definition="report", correlation_id=CORRELATION),
            NewJob(definition="report", dedupe=keyed()),
            NewJob(definition="email", id=BROUGHT_ID, correlation_id=CORRELATION, payload={"to": "bystander"}),
            NewJob(definition="email", dedupe=keyed(Within(365 * DAY), f"{KEY}-within")),
            NewJob(definition="report", delay=FAR),
        ]
    )
    dead, running = await bench.claim(2, await bench.join("report", lease=FAR))
    await bench.fail(dead)
    await engine.store.say([(running, Line(1, "the bystander's own business"))])


async def belongings(store: Store) -> Belongings:
    door = store.tenant(BYSTANDER)
    jobs = {job.id: job for job in await all_jobs(door)}
    attempts = {job: list(await door.attempts(job)) for job in jobs}
    return Belongings(
        jobs=jobs,
        counts=dict(await door.counts(1000)),
        attempts=attempts,
        lines={
            (job, attempt.number): list(await door.lines(job, attempt.number))
            for job, made in attempts.items()
            for attempt in made
        },
    )

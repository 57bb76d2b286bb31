"""Two tenants beside every test, with the same definitions, dedupe keys and ids. No test may touch their jobs.

One sorts before the tests' own tenants and one among them: a statement that forgets its tenant, and takes the first
row that it finds, finds a bystander's.
"""

from dataclasses import dataclass
from datetime import timedelta

from tests.store.bench import BROUGHT_ID, KEY, Bench, EngineUnderTest, all_jobs, keyed

from leasehold.model.dedupe import Always, Within
from leasehold.model.job import Attempt, JobId, JobRecord, LogLine, NewJob, TenantId, tenant_id
from leasehold.model.status import Status
from leasehold.store import Store

AARON = tenant_id("aaron")
BYSTANDER = tenant_id("bystander")
BYSTANDERS = (AARON, BYSTANDER)
CORRELATION = "the-correlation"

# The bystanders' jobs of these ids: one waits (BROUGHT_ID), one runs and has a log line, one is a dead letter.
RUNNING_ID = JobId("01890a5d-ac96-774b-bcce-b302099a8058")
DEAD_ID = JobId("01890a5d-ac96-774b-bcce-b302099a8059")
BYSTANDERS_IDS = (BROUGHT_ID, RUNNING_ID, DEAD_ID)

FAR = timedelta(days=3650)
"""Beyond any move of the clock: what lies so far ahead is neither due, nor expired, when a test has ended."""


REQUESTS = (
    NewJob(definition="report", id=DEAD_ID, max_attempts=1, dedupe=keyed(Always(), f"{KEY}-always")),
    NewJob(definition="report", id=RUNNING_ID, correlation_id=CORRELATION),
    NewJob(definition="report", dedupe=keyed()),
    NewJob(definition="email", id=BROUGHT_ID, correlation_id=CORRELATION, payload={"to": "bystander"}),
    NewJob(definition="email", dedupe=keyed(Within(FAR), f"{KEY}-within")),
)
"""Each is held by its key or by its id: asked for again, each is answered with the job that is there."""


@dataclass(frozen=True)
class Belongings:
    """Everything that a bystander tenant can see."""

    jobs: dict[JobId, JobRecord]
    counts: dict[Status, int]
    attempts: dict[JobId, list[Attempt]]
    lines: dict[tuple[JobId, int], list[LogLine]]
    holders: list[JobId]


async def settle_in(engine: EngineUnderTest, tenant: TenantId) -> None:
    """A dead letter, a running job with a log line, and jobs that wait, with and without keys.

    None of what ended is ever pruned, no lease runs out, and all that runs is a `report`: caps on `email` are free
    for the tests.
    """
    bench = Bench(engine, tenant)
    await bench.jobs.enqueue([*REQUESTS, NewJob(definition="report", delay=FAR)])
    dead, running = await bench.claim(2, await bench.join("report", lease=FAR))
    assert (dead.job, running.job) == (DEAD_ID, RUNNING_ID)
    await bench.fail(dead)
    await engine.store.append_log([(running, LogLine(1, f"{tenant}'s own business"))])


async def belongings(store: Store, tenant: TenantId) -> Belongings:
    tenant_jobs = store.tenant(tenant)
    jobs = {job.id: job for job in await all_jobs(tenant_jobs)}
    attempts = {job: list(await tenant_jobs.attempts(job)) for job in jobs}
    return Belongings(
        jobs=jobs,
        counts=dict(await tenant_jobs.counts(1000)),
        attempts=attempts,
        lines={
            (job, attempt.number): list(await tenant_jobs.lines(job, attempt.number))
            for job, made in attempts.items()
            for attempt in made
        },
        holders=[placed.id for placed in await tenant_jobs.enqueue(REQUESTS)],
    )

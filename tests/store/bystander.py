"""Two tenants beside every test, with the same definitions, dedupe keys and ids. No test may touch their jobs.

One sorts before the tests' own tenants and one among them: a statement that forgets its tenant, and takes the first
row that it finds, finds a bystander's.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.dynamodb.raw_table import open_table, plain
from tests.emulated_tables import is_emulated, link_of
from tests.reused_databases import ReusedDatabases
from tests.store.bench import BROUGHT_ID, EMAIL, KEY, REPORT, Bench, EngineUnderTest, all_jobs, keyed

from leasehold.engine import ClonedDatabases
from leasehold.engines import engine_for
from leasehold.engines.dynamodb.urls import read_url
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


Owned = dict[TenantId, "Belongings"]
Items = list[dict[str, Any]]


async def settle_all(url: str) -> None:
    """Lets the bystanders settle in a database, such as a template."""
    kit = engine_for(url).test_kit()
    store = await kit.open()
    try:
        await settle_all_in(EngineUnderTest(store, kit.open, kit.clock().move))
    finally:
        await store.close()


async def settle_all_in(engine: EngineUnderTest) -> None:
    await engine.store.sync_definitions([REPORT, EMAIL])
    for tenant in BYSTANDERS:
        await settle_in(engine, tenant)


async def settle_in(engine: EngineUnderTest, tenant: TenantId) -> None:
    """A dead letter, a running job with a log line, and jobs that wait, with and without keys.

    None of what ended is ever pruned, no lease runs out, and all that runs is a `report`: caps on `email` are free
    for the tests.
    """
    bench = Bench(engine, tenant)
    await bench.jobs.enqueue(REQUESTS[:2])
    claims = {claim.job: claim for claim in await bench.claim(2, await bench.join("report", lease=FAR))}
    dead, running = claims[DEAD_ID], claims[RUNNING_ID]
    await bench.jobs.enqueue([*REQUESTS[2:], NewJob(definition="report", delay=FAR)])
    await bench.fail(dead)
    await engine.store.append_log([(running, LogLine(1, f"{tenant}'s own business"))])


async def all_belongings(store: Store) -> Owned:
    return {tenant: await belongings(store, tenant) for tenant in BYSTANDERS}


ROWS = """
    with found as (
        select 'jobs' as part, to_jsonb(j) as found_row from leasehold.jobs j where tenant_id = any($1)
        union all select 'done', to_jsonb(d) from leasehold.jobs_done d where tenant_id = any($1)
        union all select 'attempts', to_jsonb(a) from leasehold.job_attempts a where tenant_id = any($1)
        union all select 'lines', to_jsonb(l) from leasehold.job_lines l where tenant_id = any($1)
        union all select 'holds', to_jsonb(h) from leasehold.dedupe_holds h where tenant_id = any($1)
    )
    select part, found_row::text from found order by part, found_row::text
"""


async def items_of_bystanders(url: str, databases: ClonedDatabases) -> Items:
    """Returns the bystanders' rows or items by one statement or request, where `all_belongings` needs fifty."""
    if isinstance(databases, ReusedDatabases):
        return [dict(row) for row in await databases.fetch(url, ROWS, list(BYSTANDERS))]
    address = read_url(url)
    if is_emulated(address):
        found = [plain(item) for item in link_of(address).scan(address.table)]
    else:
        async with open_table(url) as table:
            found = await table.items()
    prefixes = tuple(f"tenant#{tenant}#" for tenant in BYSTANDERS)
    return sorted(
        (item for item in found if item["PK"].startswith(prefixes)), key=lambda item: (item["PK"], item["SK"])
    )


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

"""Counts what a session plans after its first few calls: nothing, for each statement of the hot path and its helpers.

Before PostgreSQL 18 a function in SQL that the planner can't inline is planned at each call, 0.1 to 0.2 ms for each.
The server counts the calls of its planner (pg_stat_statements.track_planning), nested ones too. These tests start a
cluster of their own from the oldest PostgreSQL that is installed, and are skipped if that is 18 or later.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from unittest import mock

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.crashes import own_server
from tests.postgres.race_tools import parts_of
from tests.postgres_parts import open_parts
from tests.store.bench import EMAIL, REPORT
from tests.store.wake_listener import fall_asleep, listening
from tests.tenant_kit import ACME, DAY

from leasehold.embedded.binaries import VARIABLE, find_installed
from leasehold.engines import engine_for
from leasehold.engines.postgres.claim.positions import HeartbeatLooks
from leasehold.engines.postgres.rows import subscription_columns
from leasehold.model.dedupe import Dedupe
from leasehold.model.job import Claim, LogLine, NewJob
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.model.outcome import SUCCEEDED, Outcome, Raised, Snoozed, decide
from leasehold.store import FinishAnswer, Registration, Store, Subscription, WorkerFacts

FIRST_THAT_KEEPS_PLANS_OF_FUNCTIONS = 18
# A session settles on a generic plan with its sixth call, if at all.
WARMING_UP = 8
COUNTED = 3
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_planning": "on",
    "fsync": "off",
    # A plan is made again after its table was analysed.
    "autovacuum": "off",
}
JOB = NewJob(definition="report", payload={"number": 1})
KEYED = NewJob(definition="report", payload={"number": 1}, dedupe=Dedupe("the-key"))
FROM_SQL = "select job_id from leasehold.enqueue('acme', 'report', $1)"
BULK_FROM_SQL = "select job_id from leasehold.enqueue_jobs('acme', $1)"
# The driver's reset of a connection that a handler gave back is sent as plain text, and so planned each time.
PLANNED = """
    select s.plans, s.query from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = current_database() and s.plans > 0 and s.query not like '%pg_stat_statements%'
      and s.query <> 'SELECT pg_advisory_unlock_all()'
"""


class Hot:
    """Two workers that serve two definitions for all tenants, a producer of our own, and one that speaks SQL."""

    def __init__(self, store: Store, sql: Raw, registration: Registration, second: Registration) -> None:
        self.store, self.sql, self.registration, self.second = store, sql, registration, second
        self.jobs = store.tenant(ACME)
        self.hours = 100

    def earlier(self) -> timedelta:
        """A delay that is shorter than all before it: a worker that sleeps until then is woken for it."""
        self.hours -= 1
        return timedelta(hours=self.hours)

    async def sleep(self) -> None:
        await fall_asleep(self.store, self.registration)

    async def claim(self) -> list[Claim]:
        claims: list[Claim] = []
        while (claimed := await self.store.claim(self.registration, 10)).claims:
            claims += claimed.claims
        return claims

    async def run(self, outcome: Outcome | None = None) -> None:
        """Claims what is ready and ends all of it by one call."""
        verdicts = [
            (claim, decide(outcome, claim, jitter=0) if outcome else SUCCEEDED) for claim in await self.claim()
        ]
        assert verdicts, "there was nothing to run"
        assert not await self.store.finish(verdicts)


async def enqueue_while_none_sleeps(hot: Hot) -> None:
    await hot.jobs.enqueue([JOB])
    await hot.run()


async def enqueue_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([JOB])
    await hot.run()


async def enqueue_for_later_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([NewJob(definition="report", delay=hot.earlier())])


async def enqueue_with_a_key_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([KEYED])
    await hot.run()


async def enqueue_with_a_key_and_without_in_turn(hot: Hot) -> None:
    for job in (KEYED, JOB):
        await hot.sleep()
        await hot.jobs.enqueue([job])
        await hot.run()


async def enqueue_many_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([JOB] * 5)
    await hot.run()


async def enqueue_within_a_transaction(hot: Hot) -> None:
    await hot.sleep()
    async with hot.sql.transaction():
        await hot.jobs.enqueue([JOB], within=hot.sql)
    await hot.run()


async def enqueue_by_sql_while_none_sleeps(hot: Hot) -> None:
    await hot.sql.fetch(FROM_SQL, "{}")
    await hot.run()


async def enqueue_by_sql_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.sql.fetch(FROM_SQL, "{}")
    await hot.run()


async def enqueue_many_by_sql_while_a_worker_sleeps(hot: Hot) -> None:
    await hot.sleep()
    await hot.sql.fetch(
        BULK_FROM_SQL, '[{"definition": "report", "payload": {}}, {"definition": "email", "payload": {}}]'
    )
    await hot.run()


async def enqueue_in_chunks_of_one_transaction(hot: Hot) -> None:
    await hot.sleep()
    async with hot.jobs.bulk_transaction() as bulk:
        for _ in range(2):
            await bulk.enqueue([JOB] * 5)
    await hot.run()


async def finish_in_the_transaction_of_a_handler(hot: Hot) -> None:
    await hot.jobs.enqueue([JOB])
    (claim,) = await hot.claim()
    transaction = hot.store.transaction(claim, None)
    await transaction.begin()
    assert await transaction.finish(None) is FinishAnswer.FINISHED
    await transaction.commit()


async def finish_where_the_definition_is_capped(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([JOB] * 5)
    await hot.run()


async def retry_at_once(hot: Hot) -> None:
    await hot.jobs.enqueue([JOB])
    await hot.run(Snoozed(timedelta()))
    await hot.run()


async def retry_later(hot: Hot) -> None:
    await hot.sleep()
    await hot.jobs.enqueue([JOB])
    await hot.run(Raised("E", "no jitter", retry_in=hot.earlier()))


async def heartbeat_of_an_idle_worker(hot: Hot) -> None:
    await hot.store.renew(hot.registration, [], DAY, look=True, probe=True)


async def heartbeat_of_a_busy_worker(hot: Hot) -> None:
    await hot.jobs.enqueue([JOB])
    claims = await hot.claim()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeartbeatLooks, "begin", lambda *_: (False, datetime.now(UTC)))
        await hot.store.renew(hot.registration, claims, DAY)
    await hot.store.finish([(claim, SUCCEEDED) for claim in claims])


async def log_lines(hot: Hot) -> None:
    await hot.jobs.enqueue([JOB])
    claims = await hot.claim()
    await hot.store.append_log([(claim, LogLine(number, "a line")) for claim in claims for number in (1, 2)])
    await hot.store.finish([(claim, SUCCEEDED) for claim in claims])


async def pass_a_wake_on(hot: Hot) -> None:
    """A second worker begins to sleep, and is woken by the first for a job that is there."""
    await hot.jobs.enqueue([JOB])
    await parts_of(hot.store).links.claim.fetch(
        "fleet/sleep", worker=hot.second.worker, **subscription_columns(hot.second)
    )
    await hot.store.wake_another(hot.registration)
    assert not await hot.sql.fetchval("select count(*) from leasehold.sleepers")
    await hot.run()


Step = Callable[[Hot], Awaitable[None]]
STEPS: list[Step] = [
    enqueue_while_none_sleeps,
    enqueue_while_a_worker_sleeps,
    enqueue_for_later_while_a_worker_sleeps,
    enqueue_with_a_key_while_a_worker_sleeps,
    enqueue_with_a_key_and_without_in_turn,
    enqueue_many_while_a_worker_sleeps,
    enqueue_within_a_transaction,
    enqueue_in_chunks_of_one_transaction,
    finish_in_the_transaction_of_a_handler,
    enqueue_by_sql_while_none_sleeps,
    enqueue_by_sql_while_a_worker_sleeps,
    enqueue_many_by_sql_while_a_worker_sleeps,
    retry_at_once,
    retry_later,
    heartbeat_of_an_idle_worker,
    heartbeat_of_a_busy_worker,
    log_lines,
    pass_a_wake_on,
]


@pytest.fixture(scope="module")
def older_server() -> Iterator[str]:
    """The URL of a database with the schema, on the oldest server that is installed."""
    older = [each for each in find_installed() if each.version < FIRST_THAT_KEEPS_PLANS_OF_FUNCTIONS]
    if not older:
        pytest.skip("no PostgreSQL before 18 is installed: from 18 on, plans of functions are kept")
    oldest = min(older, key=lambda each: each.version)
    with mock.patch.dict(os.environ, {VARIABLE: str(oldest.folder)}), own_server(SETTINGS) as server:
        yield server.url


@pytest.fixture
async def sql(older_server: str) -> AsyncIterator[Raw]:
    connection: Raw = await asyncpg.connect(older_server)
    try:
        await connection.execute("create extension if not exists pg_stat_statements")
    except asyncpg.PostgresError as missing:
        await connection.close()
        pytest.skip(f"this PostgreSQL does not count the calls of its planner: {missing}")
    yield connection
    await connection.close()


@pytest.fixture
async def hot(older_server: str, sql: Raw) -> AsyncIterator[Hot]:
    await engine_for(older_server).prepare()
    async with AsyncExitStack() as stack:
        store = await open_parts(older_server)
        stack.push_async_callback(store.close)
        await store.sync_definitions([REPORT, EMAIL])
        registrations = [
            await store.join(Subscription(("report", "email")), WorkerFacts(host="here", pid=1), DAY) for _ in "ab"
        ]
        for registration in registrations:
            await stack.enter_async_context(listening(store, registration))
        yield Hot(store, sql, *registrations)
        await sql.execute("truncate leasehold.jobs, leasehold.jobs_done, leasehold.sleepers, leasehold.limits")
        for registration in registrations:
            await store.leave(registration)


async def planned(hot: Hot, step: Step) -> str:
    """Returns the statements that are still planned after the first few rounds, each with its count."""
    for _ in range(WARMING_UP):
        await step(hot)
    await hot.sql.execute("select pg_stat_statements_reset()")
    for _ in range(COUNTED):
        await step(hot)
    return "\n".join(f"{row['plans']}: {' '.join(row['query'].split()):.150}" for row in await hot.sql.fetch(PLANNED))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.replace("_", " "))
async def test_a_warm_session_plans_nothing(hot: Hot, step: Step) -> None:
    assert await planned(hot, step) == ""


async def test_a_warm_session_plans_nothing_where_a_cap_is_set(hot: Hot) -> None:
    await hot.store.limit(Scope(ScopeKind.DEFINITION, "report"), Limits(max_running=5))
    assert await planned(hot, finish_where_the_definition_is_capped) == ""

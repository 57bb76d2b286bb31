"""A statement whose success is a promise commits durably, even in a database whose synchronous_commit is off.

A crash loses an asynchronous commit only by chance, so no server crashes here: a trigger that is deferred to the
commit notes its synchronous_commit.
"""

from collections.abc import Awaitable, Callable

import pytest
from tests.conftest import Clock, Raw
from tests.postgres.race_tools import Connections
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest, keyed
from tests.tenant_kit import HOUR

from leasehold.engines import engine_for
from leasehold.model.dedupe import Always, Dedupe, OnConflict
from leasehold.model.job import JobId, NewJob
from leasehold.model.outcome import Canceled, Outcome, Raised, Released, Snoozed, Succeeded
from leasehold.store import Store

NOTES = """
    do $$ begin
        execute format('alter database %I set synchronous_commit = off', current_database());
    end $$;
    create table leasehold.test_commits (synchronous text not null);
    create function leasehold.test_note() returns trigger language plpgsql as $$
    begin
        insert into leasehold.test_commits values (current_setting('synchronous_commit'));
        return null;
    end $$;
    create constraint trigger test_note after insert or update or delete on leasehold.jobs
        deferrable initially deferred for each row execute function leasehold.test_note();
    create constraint trigger test_note after insert or update or delete on leasehold.jobs_done
        deferrable initially deferred for each row execute function leasehold.test_note();
"""


class Careless:
    """A bench on a database whose commits are asynchronous by default, and notes of how each write committed."""

    def __init__(self, bench: Bench, observer: Raw) -> None:
        self.bench = bench
        self.observer = observer

    async def commits_of(self, promise: Callable[[], Awaitable[object]]) -> set[str]:
        await self.observer.execute("delete from leasehold.test_commits")
        await promise()
        return {row["synchronous"] for row in await self.observer.fetch("select * from leasehold.test_commits")}


@pytest.fixture
async def careless(
    connections: Connections,
    open_stores: Callable[[int], Awaitable[list[Store]]],
    database_url: str,
    clock: Clock,
) -> Careless:
    await (await connections.open()).execute(NOTES)
    (store,) = await open_stores(1)

    async def open_again() -> Store:
        return await engine_for(database_url).open()

    await store.sync_definitions([REPORT, EMAIL])
    return Careless(Bench(EngineUnderTest(store, open_again, clock.move)), await connections.open())


async def test_a_claim_is_no_promise_and_commits_as_it_may(careless: Careless) -> None:
    """Also shows that the notes tell the two apart."""
    await careless.bench.enqueue()
    assert await careless.commits_of(careless.bench.claim_one) == {"off"}


@pytest.mark.parametrize(
    "jobs",
    [
        [NewJob(definition="report")],
        [NewJob(definition="report", delay=HOUR)],
        [NewJob(definition="report")] * 3,
        [NewJob(definition="report"), NewJob(definition="email", priority=1)],
        [NewJob(definition="report", dedupe=keyed())],
        [NewJob(definition="report", dedupe=keyed(Always()))],
    ],
    ids=["one", "one that says more", "alike", "different", "keyed", "keyed for ever"],
)
async def test_an_enqueue_commits_durably(careless: Careless, jobs: list[NewJob]) -> None:
    assert await careless.commits_of(lambda: careless.bench.jobs.enqueue(jobs)) == {"on"}


async def test_a_replace_commits_durably(careless: Careless) -> None:
    await careless.bench.enqueue(dedupe=keyed())
    again = NewJob(definition="email", dedupe=Dedupe(keyed().key, on_conflict=OnConflict.REPLACE))
    assert await careless.commits_of(lambda: careless.bench.jobs.enqueue([again])) == {"on"}


@pytest.mark.parametrize(
    "jobs",
    [[NewJob(definition="report")] * 3, [NewJob(definition="report", dedupe=keyed())]],
    ids=["alike", "keyed"],
)
async def test_a_large_enqueue_in_pieces_commits_durably(careless: Careless, jobs: list[NewJob]) -> None:
    async def fill() -> None:
        async with careless.bench.jobs.bulk_transaction() as bulk:
            await bulk.enqueue(jobs)

    assert await careless.commits_of(fill) == {"on"}


async def test_an_enqueue_in_a_callers_transaction_is_durable(careless: Careless) -> None:
    async def enqueue() -> None:
        async with careless.observer.transaction():
            await careless.bench.jobs.enqueue([NewJob(definition="report")], careless.observer)

    assert await careless.commits_of(enqueue) == {"on"}


async def test_an_enqueue_from_sql_commits_durably(careless: Careless) -> None:
    enqueue = "select * from leasehold.enqueue('acme', 'report')"
    assert await careless.commits_of(lambda: careless.observer.fetch(enqueue)) == {"on"}


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded(),
        Raised("Unlucky", "once"),
        Raised("Unlucky", "for good", final=True),
        Snoozed(HOUR),
        Released(),
        Canceled(),
    ],
    ids=["succeeded", "retried", "failed", "snoozed", "given back", "canceled"],
)
async def test_a_finish_commits_durably(careless: Careless, outcome: Outcome) -> None:
    claim = await careless.bench.running()
    assert await careless.commits_of(lambda: careless.bench.finish(claim, outcome)) == {"on"}


async def test_a_finish_in_a_handlers_transaction_is_durable(careless: Careless) -> None:
    transaction = careless.bench.store.transaction(await careless.bench.running(), None)

    async def finish() -> None:
        await transaction.begin()
        await transaction.finish(None)
        await transaction.commit()

    assert await careless.commits_of(finish) == {"on"}


@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
async def test_a_cancel_commits_durably(careless: Careless, runs: bool) -> None:
    job = (await careless.bench.running()).job if runs else await careless.bench.enqueue()
    assert await careless.commits_of(lambda: careless.bench.jobs.cancel([job])) == {"on"}


async def test_a_manual_retry_commits_durably(careless: Careless) -> None:
    job: JobId = await careless.bench.dead_lettered()
    assert await careless.commits_of(lambda: careless.bench.jobs.retry({job: 1})) == {"on"}


async def test_a_reschedule_commits_durably(careless: Careless) -> None:
    job = await careless.bench.enqueue()
    assert await careless.commits_of(lambda: careless.bench.jobs.reschedule([job], HOUR)) == {"on"}

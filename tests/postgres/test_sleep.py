"""The sleep protocol against producers, step by step: no job that was committed is slept through.

A worker that settles goes through a few statements. A producer inserts its job after one of them and commits or rolls
back after the same one, a later one, or when the worker has gone through. Every such interleaving is tried.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import combinations_with_replacement
from typing import Any, Literal

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, heard_so_far, parts_of, stepped, with_statement
from tests.store.bench import Bench
from tests.store.wake_listener import WakeListener, listening
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.engines.postgres.database import Database, Link
from leasehold.model.job import JobId, NewJob
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.model.outcome import Succeeded, decide
from leasehold.store import Claimed, Registration, Store

# The sleeper's row, the question whether anybody is in flight, a last claim, and the timer.
STATEMENTS = ["fleet/sleep", "fleet/may_sleep", "fleet/claim_next_tenants", "fleet/set_wake_time"]
THROUGH = len(STATEMENTS)
INTERLEAVINGS = list(combinations_with_replacement(range(THROUGH + 1), 2))
Isolation = Literal["read_committed", "repeatable_read", "serializable"]
ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]


Make = Callable[[Raw], Awaitable[JobId]]
"""Makes a job runnable, in the transaction that the connection has begun."""


def enqueue(bench: Bench) -> Make:
    async def make(connection: Raw) -> JobId:
        (placed,) = await bench.jobs.enqueue([NewJob(definition="report")], within=connection)
        return placed.id

    return make


class Producer:
    """Makes one job runnable, in a transaction that begins and ends after so many of the worker's statements."""

    def __init__(
        self,
        make: Make,
        connection: Raw,
        begin_at: int,
        end_at: int,
        *,
        commits: bool = True,
        isolation: Isolation = "read_committed",
    ) -> None:
        self._make = make
        self._connection = connection
        self._transaction = connection.transaction(isolation=isolation)
        self._begin_at, self._end_at, self._commits = begin_at, end_at, commits
        self.committed: JobId | None = None

    async def at(self, step: int) -> None:
        if step == self._begin_at:
            await self._transaction.start()
            self._job = await self._make(self._connection)
        if step == self._end_at and self._commits:
            await self._transaction.commit()
            self.committed = self._job
        elif step == self._end_at:
            await self._transaction.rollback()


async def settle_against(bench: Bench, registration: Registration, producers: Sequence[Producer]) -> Claimed:
    """Returns the answer of prepare_to_sleep while producers act between its statements, and the steps left."""
    step = 0

    async def act() -> None:
        for producer in producers:
            await producer.at(step)

    async def after(name: str) -> None:
        nonlocal step
        step += 1
        await act()

    stepped(bench.store, after)
    await act()
    settled = await bench.store.prepare_to_sleep(registration)
    while step < THROUGH:
        await after("the end")
    return settled


class Night:
    """One worker that settles again and again, each time as if for the first time."""

    def __init__(self, bench: Bench, registration: Registration, listener: WakeListener, observer: Raw) -> None:
        self._bench, self._registration, self._ears, self._observer = bench, registration, listener, observer

    async def sleeps_through(self, producers: Sequence[Producer]) -> bool:
        """Returns whether the worker sleeps and no wake comes, though a job was committed."""
        await self._observer.execute("delete from leasehold.sleepers")
        await self._was_woken()
        settled = await settle_against(self._bench, self._registration, producers)
        noticed = bool(settled.claims) or settled.more or await self._was_woken()
        claims = [*settled.claims, *await self._bench.claim(10, self._registration)]
        assert {claim.job for claim in claims} == {p.committed for p in producers if p.committed is not None}
        assert not await self._bench.finish_all([(claim, Succeeded()) for claim in claims])
        return bool(claims) and not noticed

    async def _was_woken(self) -> bool:
        return bool(await heard_so_far(self._observer, {self._registration: self._ears}))


@pytest.fixture
async def worker(bench: Bench) -> Registration:
    """There is a job for tomorrow: a worker that settles goes through all four statements."""
    await bench.enqueue(delay=DAY)
    return await bench.worker()


async def test_settling_takes_the_statements_that_these_tests_stop_it_at(bench: Bench, worker: Registration) -> None:
    taken: list[str] = []

    async def after(name: str) -> None:
        taken.append(name)

    stepped(bench.store, after)
    await bench.store.prepare_to_sleep(worker)
    assert taken == STATEMENTS


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_no_job_is_slept_through_at_any_step(
    bench: Bench, worker: Registration, connections: Connections, observer: Raw, isolation: Isolation
) -> None:
    connection = await connections.open()
    async with listening(bench.store, worker) as listener:
        night = Night(bench, worker, listener, observer)
        for steps in INTERLEAVINGS:
            producer = Producer(enqueue(bench), connection, *steps, isolation=isolation)
            assert not await night.sleeps_through([producer]), f"inserted and committed at {steps}: no worker came"


async def test_without_asking_who_is_in_flight_a_job_is_slept_through(
    bench: Bench, worker: Registration, connections: Connections, observer: Raw
) -> None:
    """The control: inserted before there was a sleeper, committed after the last claim. The test above can fail."""
    with_statement(bench.store, "fleet/may_sleep", "select $1::text[] is not null")
    connection = await connections.open()
    async with listening(bench.store, worker) as listener:
        night = Night(bench, worker, listener, observer)
        lost = [
            steps
            for steps in INTERLEAVINGS
            if await night.sleeps_through([Producer(enqueue(bench), connection, *steps)])
        ]
    assert lost == [(0, 3), (0, 4)]


async def test_no_job_is_slept_through_when_producers_roll_back(
    bench: Bench, worker: Registration, connections: Connections, observer: Raw
) -> None:
    chance = random.Random(7)
    three = [await connections.open() for _ in range(3)]
    async with listening(bench.store, worker) as listener:
        night = Night(bench, worker, listener, observer)
        for number in range(150):
            producers = [
                Producer(
                    enqueue(bench),
                    connection,
                    *chance.choice(INTERLEAVINGS),
                    commits=chance.random() > 0.3,
                    isolation=chance.choice(ISOLATIONS),
                )
                for connection in three
            ]
            assert not await night.sleeps_through(producers), f"round {number}: no worker came"


class LinkOn(Link):
    """A link whose one connection is the test's, which is in a transaction of the test."""

    def __init__(self, connection: Raw, database: Database) -> None:
        super().__init__(database, {})
        self._given = connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        yield self._given


@pytest.mark.parametrize(
    "scope", [Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, "report")], ids=["tenant", "definition"]
)
async def test_no_finish_that_frees_a_capped_scope_is_slept_through(
    bench: Bench, worker: Registration, connections: Connections, second_store: Store, observer: Raw, scope: Scope
) -> None:
    """The one job that the cap lets run is finished, in a transaction that begins and ends at these steps."""
    busy, connection = await bench.join(store=second_store), await connections.open()
    await bench.store.limit(scope, Limits(max_running=1))
    parts_of(second_store).links.finish = LinkOn(connection, parts_of(second_store).database)

    async def finish(connection: Raw) -> JobId:
        assert not await second_store.finish([(running, decide(Succeeded(), running, jitter=0))])
        return waiting

    async with listening(bench.store, worker) as listener:
        night = Night(bench, worker, listener, observer)
        for steps in INTERLEAVINGS:
            await bench.enqueue()
            (running,) = (await second_store.claim(busy, 1)).claims
            waiting = await bench.enqueue()
            producer = Producer(finish, connection, *steps)
            assert not await night.sleeps_through([producer]), f"begun and committed at {steps}: no worker came"


async def test_no_earlier_due_time_is_missed_at_any_step(
    bench: Bench, worker: Registration, connections: Connections, observer: Raw
) -> None:
    """Tomorrow's job is known. Then a job comes that is due in an hour: the timer is set again, or a wake comes."""
    connection = await connections.open()

    async def in_an_hour(connection: Raw) -> JobId:
        (placed,) = await bench.jobs.enqueue([NewJob(definition="report", delay=HOUR)], within=connection)
        return placed.id

    async with listening(bench.store, worker) as listener:
        for steps in INTERLEAVINGS:
            await observer.execute("delete from leasehold.sleepers")
            await heard_so_far(observer, {worker: listener})
            producer = Producer(in_an_hour, connection, *steps)
            settled = await settle_against(bench, worker, [producer])
            knows = settled.more or (settled.next_due is not None and settled.next_due <= HOUR)
            assert knows or await heard_so_far(observer, {worker: listener}), f"missed what came at {steps}"
            assert producer.committed is not None
            await bench.jobs.cancel([producer.committed])


async def test_a_worker_stopped_anywhere_in_the_protocol_blocks_no_enqueue(
    bench: Bench, worker: Registration, connections: Connections
) -> None:
    """After each of its statements others enqueue, as if it had been stopped there: nothing is locked."""
    connection = await connections.open(lock_timeout="1s", statement_timeout="2s")
    enqueued: list[str] = []

    async def after(name: str) -> None:
        await bench.jobs.enqueue([NewJob(definition="report", delay=2 * DAY)], within=connection)
        enqueued.append(name)

    stepped(bench.store, after)
    settled = await bench.store.prepare_to_sleep(worker)
    assert (list(settled.claims), settled.more) == ([], False)
    assert enqueued == STATEMENTS

"""The database goes away, answers late, or forgets: the worker waits, comes back by itself, and nothing is lost.

Workers run inside the test and reach the database through a proxy. The fallback is an hour unless a test says
otherwise: whatever is picked up was not picked up by chance.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.conftest import eventually
from tests.postgres.crashes import crash, own_server
from tests.postgres.race_tools import GATED_CLOCK, Gate
from tests.store.bench import ACME, HOUR
from tests.worker.proxy import Proxy

from leasehold import faults
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.errors import Unreachable
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.model.status import Status
from leasehold.store import Store, TenantJobs
from leasehold.worker import Handlers, Job, Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases

TASK = Definition("task", max_attempts=5, backoff=Steps(0))
SHORT = timedelta(seconds=1.5)
LONG = timedelta(seconds=60)
FAST_SERVER = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


@dataclass
class Seen:
    """Moments that the handler noted, on the monotonic clock."""

    started: list[JobId] = field(default_factory=list)
    ended: list[JobId] = field(default_factory=list)
    stopped: dict[JobId, float] = field(default_factory=dict)

    def handlers(self) -> Handlers:
        handlers = Handlers()

        @handlers.add(TASK)
        async def task(job: Job, payload: dict[str, Any]) -> str:
            self.started.append(job.id)
            try:
                await asyncio.sleep(payload.get("seconds", 0) if job.attempt == 1 else 0)
            except asyncio.CancelledError:
                self.stopped[job.id] = time.monotonic()
                raise
            self.ended.append(job.id)
            return f"by attempt {job.attempt}"

        return handlers


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(database_url).open() as opened:
        yield opened


@pytest.fixture
async def door(store: Store) -> TenantJobs:
    await store.sync_definitions([TASK])
    return store.tenant(ACME)


@asynccontextmanager
async def at_work(url: str, seen: Seen, *, lease: timedelta = LONG, **settings: Any) -> AsyncIterator[Worker]:
    """A worker that is stopped when the block is left; one that ended by itself fails the test."""
    chosen = {"fallback": HOUR, "grace": timedelta(seconds=5), **settings}
    worker = Worker(
        engine_for(url).open,
        seen.handlers(),
        WorkerSettings(leases=Leases(busy=lease, idle=lease), **chosen),
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
        assert not running.done(), "the worker ended by itself"
    finally:
        worker.stop()
        async with asyncio.timeout(30):
            await running


async def enqueue(door: TenantJobs, **fields: Any) -> JobId:
    payload = {"seconds": fields.pop("seconds", 0)}
    (placed,) = await door.enqueue([NewJob(definition="task", payload=payload, **fields)])
    return placed.id


async def ended(door: TenantJobs, jobs: Sequence[JobId]) -> list[JobRecord]:
    """The jobs, once all of them are final."""

    async def all_final() -> bool:
        return all(record is not None and record.status.final for record in await read())

    async def read() -> list[JobRecord | None]:
        try:
            return [await door.get(job) for job in jobs]
        except Unreachable:
            return [None]

    await eventually(all_final, what=f"the end of {len(jobs)} jobs")
    return [record for record in await read() if record is not None]


async def began(seen: Seen, job: JobId) -> None:
    async def has_started() -> bool:
        return job in seen.started

    await eventually(has_started, what=f"the start of {job}")


@pytest.fixture
async def ask(database_url: str) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """One value, asked of the database itself, past the proxy."""
    connection = await asyncpg.connect(database_url)
    yield connection.fetchval
    await connection.close()


async def asleep(ask: Callable[..., Awaitable[Any]]) -> None:
    """The worker listens, and has told producers that it sleeps."""

    async def sleeps() -> bool:
        return bool(
            await ask(
                """
                select exists (select from leasehold.sleepers s where leasehold.listens(s.worker_id))
                """
            )
        )

    await eventually(sleeps, what="a sleeping worker")


# ------------------------------------------------------------------------------------------------ wakes that are lost


END_LISTENERS = """
    select count(pg_terminate_backend(l.pid, 5000)) from pg_locks l join leasehold.workers w on true
    where l.locktype = 'advisory' and l.granted
      and (l.classid::bigint << 32 | l.objid::bigint) = leasehold.listener_key(w.id)
"""


async def test_jobs_enqueued_without_a_listener_are_found_later(
    door: TenantJobs, database_url: str, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(database_url, seen):
        for _ in range(5):
            await asleep(ask)
            assert await ask(END_LISTENERS) == 1
            await ended(door, [await enqueue(door)])


async def test_the_loss_of_a_listener_is_logged(
    door: TenantJobs,
    database_url: str,
    seen: Seen,
    ask: Callable[..., Awaitable[Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said() -> list[str]:
        return [text for entry in caplog.records if "the listener of" in (text := entry.getMessage())]

    async def is_back() -> bool:
        return len(said()) == 2

    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(database_url, seen):
            await asleep(ask)
            assert said() == []
            await ask(END_LISTENERS)
            await eventually(is_back, what="a listener that has a connection again")
    assert ["lost its connection" in said()[0], "has a connection again" in said()[1]] == [True, True]


async def test_jobs_enqueued_without_a_network_are_found_later(
    door: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(proxy.url, seen) as worker:
        await asleep(ask)
        proxy.refuse()
        job = await enqueue(door)
        await asyncio.sleep(0.5)
        assert seen.started == []
        proxy.heal()
        (record,) = await ended(door, [job])
        assert worker.joined.is_set()
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)


async def test_without_wakes_the_fallback_finds_what_there_is(
    door: TenantJobs, database_url: str, seen: Seen
) -> None:
    async with at_work(database_url, seen, notify=False, fallback=timedelta(milliseconds=200)) as worker:
        await worker.joined.wait()
        for _ in range(3):
            await ended(door, [await enqueue(door)])


async def test_the_fallback_finds_what_no_wake_was_sent_for(
    door: TenantJobs, database_url: str, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    await ask(
        """
        create or replace function leasehold.wake(definitions text[], tenants text[], dues timestamptz[])
        returns integer language sql as 'select 0'
        """
    )
    async with at_work(database_url, seen, fallback=timedelta(milliseconds=200)):
        await asleep(ask)
        await ended(door, [await enqueue(door)])


async def test_jobs_that_come_due_start_in_time_and_in_order(door: TenantJobs, database_url: str, seen: Seen) -> None:
    """So far apart that on a busy machine, too, each is claimed before the next is due."""
    async with at_work(database_url, seen, grace=timedelta()) as worker:
        await worker.joined.wait()
        runs_on = await enqueue(door, seconds=60)
        await began(seen, runs_on)
        due = [await enqueue(door, delay=timedelta(seconds=seconds)) for seconds in (7, 1, 4)]
        others = []
        for _ in range(10):
            others.append(await enqueue(door, seconds=0.3))
            await asyncio.sleep(0.1)
        records = await ended(door, due)
        await ended(door, others)
        assert runs_on not in seen.ended
    for record in records:
        assert record.started_at is not None
        late = record.started_at - record.scheduled_for
        assert timedelta() <= late < timedelta(seconds=3), f"{late} after its time"
    assert [job for job in seen.started if job in due] == [due[1], due[2], due[0]]


# --------------------------------------------------------------------------------------------- the database goes away


async def test_an_immediate_restart_costs_no_attempt() -> None:
    """Its lease outlives the restart: what runs goes on, and what was only claimed is given back at no cost."""
    seen = Seen()
    with own_server(FAST_SERVER) as server:
        await migrate(server.url, schema="leasehold")
        store = await engine_for(server.url).open()
        try:
            await store.sync_definitions([TASK])
            door = store.tenant(ACME)
            jobs = [await enqueue(door, seconds=0.05 * (number % 4)) for number in range(150)]
            async with at_work(server.url, seen, slots=5):
                for wanted in (30, 60):

                    async def enough(wanted: int = wanted) -> bool:
                        return len(seen.ended) >= wanted

                    await eventually(enough, what=f"{wanted} ended jobs")
                    await crash(server)
                records = await ended(door, jobs)
        finally:
            await store.close()
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert {record.tries for record in records} == {1}, "a try was used"


async def test_a_worker_cut_off_stops_its_handlers_before_its_lease_ends(
    door: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    """Whatever the database heard before the black hole opened, the lease it knows ends at most one lease after."""
    async with at_work(proxy.url, seen, lease=SHORT):
        job = await enqueue(door, seconds=60)
        await began(seen, job)
        proxy.hold()
        cut_off = time.monotonic()
        await asyncio.sleep(3 * SHORT.total_seconds())
        assert job in seen.stopped, "the handler runs on, and others may have its job"
        assert seen.stopped[job] - cut_off < SHORT.total_seconds()
        record = await door.get(job)
        assert record is not None
        assert not record.status.final
        proxy.heal()
        (record,) = await ended(door, [job])
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 2, "by attempt 2")
    assert seen.started == [job, job]
    assert seen.ended == [job]


async def test_a_worker_cut_off_before_its_first_beat_stops_its_handlers(
    door: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    """The heartbeat has a connection of its own, and opening it can hang as well."""
    job = await enqueue(door, seconds=60)
    opened = 0
    cut_off: list[float] = []

    async def open_and_hold() -> Store:
        nonlocal opened
        opened += 1
        if opened == 2:  # the heartbeat's
            await began(seen, job)
            cut_off.append(time.monotonic())
            proxy.hold()
        return await engine_for(proxy.url).open()

    worker = Worker(
        open_and_hold, seen.handlers(), WorkerSettings(leases=Leases(busy=SHORT, idle=SHORT), fallback=HOUR)
    )
    running = asyncio.create_task(worker.run())
    try:

        async def held() -> bool:
            return bool(cut_off)

        await eventually(held, what="the black hole")
        await asyncio.sleep(SHORT.total_seconds())
        assert seen.stopped[job] - cut_off[0] < SHORT.total_seconds()
        proxy.heal()
        (record,) = await ended(door, [job])
        assert (record.status, record.attempt) == (Status.SUCCEEDED, 2)
    finally:
        worker.stop()
        proxy.heal()
        async with asyncio.timeout(30):
            await running


async def test_connections_that_died_without_a_word_are_replaced(
    door: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    """As with a forgetful NAT or a moved server: nothing comes back on any of them, and no error either."""
    async with at_work(proxy.url, seen, lease=SHORT):
        await asleep(ask)
        proxy.strand()
        (record,) = await ended(door, [await enqueue(door)])
    assert record.status is Status.SUCCEEDED


@pytest.mark.parametrize(
    "words_of_its_statement", [b"waits_for_locks", b"final_status"], ids=["claiming", "finishing"]
)
async def test_a_silently_dead_connection_does_not_stop_the_worker(
    words_of_its_statement: bytes, door: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    """Its heartbeat goes on, so nobody would ever take its jobs from it."""
    async with at_work(proxy.url, seen, lease=SHORT):
        await ended(door, [await enqueue(door)])
        await asleep(ask)
        assert proxy.strand(words_of_its_statement) == 1
        (record,) = await ended(door, [await enqueue(door)])
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)


async def test_connections_that_died_without_a_word_are_not_kept(
    door: TenantJobs, proxy: Proxy, seen: Seen, ask: Callable[..., Awaitable[Any]]
) -> None:
    async with at_work(proxy.url, seen, lease=SHORT):
        await ended(door, [await enqueue(door)])
        await asleep(ask)
        proxy.strand()
        await ended(door, [await enqueue(door)])

        async def only_living_ones() -> bool:
            return proxy.stranded == 0

        await eventually(only_living_ones, timedelta(seconds=8), "the end of the dead connections")


async def test_a_worker_waits_for_a_database_that_is_not_there_yet(
    door: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    job = await enqueue(door)
    proxy.refuse()
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(proxy.url, seen):
            await asyncio.sleep(3)
            tries = proxy.accepted
            said = [record for record in caplog.records if record.levelno >= logging.WARNING]
            proxy.heal()
            (record,) = await ended(door, [job])
    assert record.status is Status.SUCCEEDED
    assert 2 <= tries <= 12, f"{tries} connections tried in 3 s"
    assert len(said) == 1, [record.getMessage() for record in said]
    assert "the database is away" in said[0].getMessage()


async def test_each_outage_is_told_and_begins_with_short_pauses(
    door: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the second one, after a session that ended by a lost registration."""
    proxy.refuse()
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        async with at_work(proxy.url, seen, lease=timedelta(seconds=1)) as worker:
            await asyncio.sleep(0.5)
            proxy.heal()
            await worker.joined.wait()
            await ended(door, [await enqueue(door)])
            proxy.refuse()

            async def told_twice() -> bool:
                return caplog.text.count("the database is away") == 2

            await eventually(told_twice, timedelta(seconds=10), "a second message")
            proxy.heal()
            await ended(door, [await enqueue(door)])


async def test_a_lost_database_is_told_once_and_so_is_its_return(
    door: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """Claims, finishes, listener and heartbeats each try again, and each of their tries was a line."""
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with at_work(proxy.url, seen):
            job = await enqueue(door, seconds=0.5)
            await began(seen, job)
            proxy.refuse()
            before = proxy.accepted

            async def many_tries() -> bool:
                return proxy.accepted - before >= 10

            await eventually(many_tries, what="ten tries to reach the database")
            proxy.heal()
            await ended(door, [job])

            async def is_back() -> bool:
                return "the database is back" in caplog.text

            await eventually(is_back, what="word of its return")
    away, back = (message for message in caplog.messages if "database" in message)
    assert away.startswith("the database is away, the worker waits for it: LH-3001")
    assert back.startswith("the database is back after ")


async def test_reconnecting_is_not_a_storm(door: TenantJobs, proxy: Proxy, seen: Seen) -> None:
    """Claims, finishes, listener, voice and heartbeats all try again: together fewer than 20 times a second."""
    async with at_work(proxy.url, seen):
        job = await enqueue(door, seconds=0.5)
        await began(seen, job)
        proxy.refuse()
        before = proxy.accepted
        await asyncio.sleep(3)
        tries = proxy.accepted - before
        proxy.heal()
        (record,) = await ended(door, [job])
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)
    assert 5 <= tries <= 60, f"{tries} connections tried in 3 s"


# ---------------------------------------------------------------------------------------------- replies that are lost


async def test_a_finish_whose_reply_was_lost_is_known_to_be_ours(
    door: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(proxy.url, seen):
        proxy.swallow(b"by attempt 1")
        (record,) = await ended(door, [await enqueue(door)])
        # A job after it goes through the same finisher, which has settled the first by then.
        await ended(door, [await enqueue(door)])
    assert proxy.swallowed == 1
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 1, "by attempt 1")
    assert len(seen.started) == 2
    assert "LH-4001" not in caplog.text


async def test_a_claim_whose_reply_was_lost_is_given_back_at_no_cost(
    door: TenantJobs, database_url: str, seen: Seen
) -> None:
    async with at_work(database_url, seen) as worker:
        await worker.joined.wait()
        faults.arm("after_claim:raise")
        (record,) = await ended(door, [await enqueue(door)])
    with suppress(faults.InjectedFault):
        faults.reach("after_claim")
        assert (record.status, record.tries) == (Status.SUCCEEDED, 1)
        assert seen.started == [record.id]
        return
    pytest.fail("the fault point was never reached")


async def test_a_claim_committed_after_its_connection_broke_is_found(
    door: TenantJobs, proxy: Proxy, seen: Seen, database_url: str, ask: Callable[..., Awaitable[Any]]
) -> None:
    """The server is still at it when the worker, connected again, asks for its claims. No other worker would ask."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(GATED_CLOCK)
        gate = Gate(connection)
        async with at_work(proxy.url, seen, lease=SHORT):
            await asleep(ask)
            await gate.close("fleet/claim_few")
            job = await enqueue(door)
            await gate.holds(1)
            proxy.cut()
            await gate.holds(2)
            await gate.open()
            (record,) = await ended(door, [job])
    finally:
        await connection.close()
    assert (record.status, record.tries) == (Status.SUCCEEDED, 1)


async def test_a_connection_lost_while_the_store_is_opened_is_waited_for(
    door: TenantJobs, proxy: Proxy, seen: Seen
) -> None:
    proxy.swallow(b".migrations")
    async with at_work(proxy.url, seen) as worker:
        async with asyncio.timeout(5):
            await worker.joined.wait()
        await ended(door, [await enqueue(door)])
    assert proxy.swallowed == 1

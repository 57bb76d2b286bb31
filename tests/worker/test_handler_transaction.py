"""Effects that happen once: what a handler writes in job.transaction() is kept with its finish, or not at all."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy import Column, Engine, MetaData, String, Table, create_engine, insert, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.conftest import PATIENCE, eventually
from tests.worker.shop import HOUR, SHORT, Raw, Shop, only, session_of

from leasehold import Leasehold
from leasehold.errors import InvalidInput, JobFailed
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition, Retention
from leasehold.model.job import NewJob, job_id
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import CancelAnswer, Subscription, WorkerFacts
from leasehold.telemetry import Event, JobEnded
from leasehold.worker import Fail, Handlers, Job, Snooze

WRITE = "insert into effects (job, attempt) values ($1, $2)"
AT_ONCE = Steps(0)
# The first of two attempts hangs after its write; the second has to end within this time.
TIMEOUT = timedelta(seconds=3)

effects_table = Table("effects", MetaData(), Column("job", String), Column("attempt", String))


@pytest.fixture(autouse=True)
async def table(observer: Raw) -> None:
    await observer.execute("create table public.effects (job text not null, attempt text not null)")


@pytest.fixture
async def async_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://", 1))
    yield engine
    await engine.dispose()


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    yield engine
    engine.dispose()


async def effects(shop: Shop) -> list[tuple[str, str]]:
    rows = await shop.observer.fetch("select job, attempt from effects order by attempt")
    return [(row["job"], row["attempt"]) for row in rows]


async def write(connection: Any, job: Job) -> None:
    await connection.execute(WRITE, job.id, str(job.attempt))


# ---------------------------------------------------------------------------------------------------- on our own


async def test_writes_appear_when_the_job_succeeds_and_not_before(shop: Shop) -> None:
    seen: list[tuple[int, Status]] = []

    async def handler(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        seen.append((len(await effects(shop)), (await shop.job(job.id)).status))
        return "done"

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert seen == [(0, Status.RUNNING)]
    assert (record.status, record.result, record.attempt) == (Status.SUCCEEDED, "done", 1)
    assert await effects(shop) == [(job, "1")]
    assert await shop.history(job) == [AttemptStatus.SUCCEEDED]


async def test_a_job_finished_in_its_transaction_is_reported_once(shop: Shop) -> None:
    ended: list[Event] = []

    async def handler(job: Job, payload: Any) -> None:
        job.log("written before the finish")
        async with job.transaction():
            pass

    shop.doors.count("finish")
    async with shop.working(
        only(handler), observe=lambda event: ended.append(event) if isinstance(event, JobEnded) else None
    ):
        job = await shop.enqueue()
        await shop.ended(job)

        async def told() -> bool:
            return bool(ended)

        await eventually(told, what="the event")
    assert shop.doors.calls["finish"] == 0
    (event,) = ended
    assert isinstance(event, JobEnded)
    assert (event.job, event.status) == (job, Status.SUCCEEDED)
    assert [line.text for line in await shop.lines(job)] == ["written before the finish"]


async def test_a_last_line_is_stored_with_a_transaction_too(shop: Shop, engine: Engine) -> None:
    """None of ten was: the finish overtook a line that was on its way to the loop."""

    async def on_the_loop(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
        job.log("the last line")

    def in_a_thread(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)) as session:
            session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
        job.log("the last line")

    handlers = only(on_the_loop, "async")
    handlers.add(Definition("sync"))(in_a_thread)
    async with shop.working(handlers):
        jobs = [job for key in ("async", "sync") for job in await shop.enqueue_many(5, key)]
        records = await shop.all_ended(jobs)
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert [len(await shop.lines(job)) for job in jobs] == [1] * 10


async def test_a_finished_row_is_as_complete_as_any_other(shop: Shop) -> None:
    """Written by another statement than the ordinary finish: of two equal jobs, all columns must agree."""

    async def handler(job: Job, payload: Any) -> dict[str, int]:
        if payload["within"]:
            async with job.transaction():
                pass
        return {"n": 1}

    fields: dict[str, Any] = {"priority": 7, "correlation_id": "c", "created_by": "me", "max_attempts": 4}
    async with shop.working(only(handler, retention=Retention(succeeded=timedelta(days=3)))):
        jobs = [await shop.enqueue(payload={"within": within}, **fields) for within in (True, False)]
        await shop.all_ended(jobs)
    rows = await shop.observer.fetch(
        """select to_jsonb(d) - '{id,payload,scheduled_for,queued_at,started_at,finished_at,prune_after}'::text[]
                      || jsonb_build_object('kept', prune_after - finished_at) as row
           from leasehold.jobs_done d"""
    )
    assert rows[0]["row"] == rows[1]["row"]
    assert '"kept": "3 days"' in rows[0]["row"]


@pytest.mark.parametrize("after_the_block", [False, True])
async def test_a_handler_that_raises_has_written_nothing(shop: Shop, after_the_block: bool) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            if job.attempt == 1 and not after_the_block:
                raise ConnectionError("in the block")
        if job.attempt == 1:
            raise ConnectionError("after the block")

    async with shop.working(only(handler, backoff=AT_ONCE)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert await effects(shop) == [(job, "2")]
    assert await shop.history(job) == [AttemptStatus.FAILED, AttemptStatus.SUCCEEDED]


@pytest.mark.parametrize("error", [Snooze(timedelta()), Fail("no use")])
async def test_a_snooze_and_a_failure_roll_back_too(shop: Shop, error: Exception) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
        if job.attempt == 1:
            raise error

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    snoozed = isinstance(error, Snooze)
    assert record.status is (Status.SUCCEEDED if snoozed else Status.FAILED)
    assert await effects(shop) == ([(job, "2")] if snoozed else [])


async def test_a_result_that_can_not_be_kept_rolls_back_what_was_written(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> object:
        async with job.transaction() as connection:
            await write(connection, job)
        return object()

    async with shop.working(only(handler)):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.FAILED, "result_invalid")
    assert await effects(shop) == []


async def test_a_transaction_that_fails_at_its_commit_fails_the_attempt(shop: Shop) -> None:
    await shop.observer.execute("create table once (id int unique deferrable initially deferred)")
    await shop.observer.execute("insert into once values (1)")

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            if job.attempt == 1:
                await connection.execute("insert into once values (1)")
            if job.attempt == 2:
                with suppress(asyncpg.DivisionByZeroError):
                    await connection.execute("select 1 / 0")

    async with shop.working(only(handler, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
        attempts = await shop.door.attempts(job)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 3)
    assert [attempt.error_code for attempt in attempts[:2]] == ["UniqueViolationError", "InFailedSQLTransactionError"]
    assert await effects(shop) == [(job, "3")]


async def test_a_block_that_failed_may_be_tried_again_within_the_attempt(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        for number in range(3):
            try:
                async with job.transaction() as connection:
                    await write(connection, job)
                    if number < 2:
                        raise asyncpg.SerializationError("lost a race")
            except asyncpg.SerializationError:
                continue

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).attempt == 1
    assert await effects(shop) == [(job, "1")]


async def test_a_second_transaction_is_refused(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction():
            pass
        async with job.transaction():
            pass

    async with shop.working(only(handler, max_attempts=1)):
        record = await shop.ended(await shop.enqueue())
    assert record.last_error is not None
    assert "has begun its transaction already" in record.last_error


async def test_a_handler_that_commits_by_hand_fails_for_good(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            await connection.execute("commit")

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error_code, record.attempt) == (Status.FAILED, "transaction_ended", 1)


async def test_settings_pass_neither_to_a_handler_nor_from_it(shop: Shop) -> None:
    """But its name, by which it is known in pg_stat_activity."""
    asked = """select coalesce(json_object_agg(name, setting), '{}') from pg_settings
               where source in ('client', 'session') and name not in ('application_name', 'client_encoding')"""
    found: list[str] = []
    pids: list[int] = []

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            found.append(await connection.fetchval(asked))
            pids.append(connection.get_server_pid())
            await connection.execute("set session work_mem = '5MB'")

    async with shop.working(only(handler)):
        for _ in range(2):
            await shop.ended(await shop.enqueue())
    assert pids[0] == pids[1], "the second one had another connection, and shows nothing"
    assert found == ["{}", "{}"]


async def test_the_finish_is_durable_whatever_the_handler_set(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await connection.execute("set local synchronous_commit = off")
            held.append(connection)

    held: list[Any] = []
    setting: list[str] = []

    def look_before_the_commit(original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(claim: Any, given: Any) -> Any:
            made = original(claim, given)
            commit = made.commit

            async def looked() -> None:
                setting.append(await held[0].fetchval("select current_setting('synchronous_commit')"))
                setting.append(
                    await held[0].fetchval("select current_setting('idle_in_transaction_session_timeout')")
                )
                await commit()

            made.commit = looked
            return made

        return transaction

    shop.doors.step_in("transaction", look_before_the_commit)
    async with shop.working(only(handler)):
        await shop.ended(await shop.enqueue())
    assert setting == ["on", "10s"]


# ------------------------------------------------------------------------------------ cancel, timeout, lost lease


async def test_a_cancel_does_not_wait_for_the_transaction_and_rolls_it_back(shop: Shop) -> None:
    wrote = asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            wrote.set()
            await asyncio.Event().wait()

    async with shop.working(only(handler)):
        job = await shop.enqueue()
        await wrote.wait()
        answer = await asyncio.wait_for(shop.door.cancel([job]), PATIENCE.total_seconds())
        assert answer == {job: CancelAnswer.REQUESTED}
        assert (await shop.ended(job)).status is Status.CANCELED
    assert await effects(shop) == []
    assert await shop.history(job) == [AttemptStatus.CANCELED]


async def test_a_lease_lost_during_a_rollback_ends_the_attempt(shop: Shop) -> None:
    """The server does not answer the rollback, and the run is stopped a second time: nobody waits for it."""
    wrote, rolls_back = asyncio.Event(), asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction():
            pass
        wrote.set()
        await asyncio.Event().wait()

    def never_answer(original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(claim: Any, given: Any) -> Any:
            made = original(claim, given)

            async def rollback() -> None:
                rolls_back.set()
                await asyncio.Event().wait()

            made.rollback = rollback
            return made

        return transaction

    shop.doors.step_in("transaction", never_answer)
    async with shop.working(only(handler)) as worker:
        job = await shop.enqueue()
        await wrote.wait()
        await shop.door.cancel([job])
        await rolls_back.wait()
        session = session_of(worker)
        (claim,) = session.ledger.attempts
        session.ledger.lose(claim)

        async def forgotten() -> bool:
            return not session.ledger.attempts

        await eventually(forgotten, what="the end of the run")


async def test_a_timeout_rolls_back(shop: Shop) -> None:
    wrote: list[int] = []

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
        wrote.append(job.attempt)
        if job.attempt == 1:
            await asyncio.Event().wait()

    async with shop.working(only(handler, timeout=TIMEOUT, backoff=AT_ONCE)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert wrote == [1, 2]
    assert await effects(shop) == [(job, "2")]
    assert await shop.history(job) == [AttemptStatus.TIMEOUT, AttemptStatus.SUCCEEDED]


async def test_a_handler_that_returns_after_its_timeout_has_not_succeeded(shop: Shop) -> None:
    """Its writes were rolled back, so its result must not be kept."""

    async def stubborn(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "fine"

    definition = Definition("stubborn", timeout=timedelta(milliseconds=200), max_attempts=1)
    handlers = Handlers()
    handlers.add(definition)(stubborn)
    async with shop.working(handlers):
        job = await shop.enqueue("stubborn")
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.DEAD_LETTER, None)
    assert await effects(shop) == []
    assert await shop.history(job) == [AttemptStatus.TIMEOUT]


async def test_a_handler_that_returns_although_it_was_canceled_is_canceled(shop: Shop) -> None:
    began = asyncio.Event()

    async def stubborn(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "fine"

    async with shop.working(only(stubborn)):
        job = await shop.enqueue()
        await began.wait()
        await shop.door.cancel([job])
        record = await shop.ended(job)
    assert (record.status, record.result) == (Status.CANCELED, None)
    assert await effects(shop) == []


async def test_a_shutdown_rolls_back_and_gives_the_job_back_at_no_cost(shop: Shop) -> None:
    wrote = asyncio.Event()

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            wrote.set()
            await asyncio.Event().wait()

    async with shop.working(only(handler), grace=timedelta()):
        job = await shop.enqueue()
        await wrote.wait()
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await effects(shop) == []


async def test_who_lost_the_claim_while_it_ran_writes_nothing(shop: Shop) -> None:
    """Another worker has the job: as after a whole lease without a word."""
    happened: list[str] = []
    other = await shop.store.join(Subscription(("other",)), WorkerFacts("elsewhere", 1), HOUR)

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            await shop.observer.execute(
                "update leasehold.jobs set attempt = attempt + 1, worker_id = $1", other.worker
            )

    async def discarded() -> bool:
        return "job.discarded" in happened

    async with shop.working(only(handler), observe=lambda event: happened.append(event.event)):
        job = await shop.enqueue()
        await eventually(discarded, what="the loss")
        record = await shop.job(job)
    assert (record.status, record.attempt) == (Status.RUNNING, 2)
    assert await effects(shop) == []


async def test_a_lost_registration_writes_nothing_even_if_no_one_claimed(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            if job.attempt == 1:
                await shop.observer.execute("delete from leasehold.workers")

    async with shop.working(only(handler, backoff=AT_ONCE), leases=SHORT):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert await effects(shop) == [(job, str(record.attempt))]
    assert record.attempt > 1


async def test_a_commit_whose_answer_is_lost_is_looked_up(shop: Shop) -> None:
    committed = asyncio.Event()

    async def handler(job: Job, payload: Any) -> str:
        async with job.transaction() as connection:
            await write(connection, job)
        return "kept"

    def lose_the_answer(original: Callable[..., Any]) -> Callable[..., Any]:
        def transaction(claim: Any, given: Any) -> Any:
            made = original(claim, given)
            commit = made.commit

            async def lost() -> None:
                await commit()
                committed.set()
                raise ConnectionResetError("the answer was lost")

            made.commit = lost
            return made

        return transaction

    ended: list[Event] = []
    shop.doors.step_in("transaction", lose_the_answer)
    async with shop.working(only(handler), observe=ended.append):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert committed.is_set()
    assert (record.status, record.result, record.attempt) == (Status.SUCCEEDED, "kept", 1)
    assert [event.status for event in ended if isinstance(event, JobEnded)] == [Status.SUCCEEDED]
    assert await effects(shop) == [(job, "1")]


async def test_a_connection_that_breaks_at_the_commit_rolls_back(shop: Shop) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            pid = connection.get_server_pid()
        if job.attempt == 1:
            await shop.observer.execute("select pg_terminate_backend($1)", pid)

    async with shop.working(only(handler, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 2)
    assert await effects(shop) == [(job, "2")]


async def test_many_at_once_have_a_connection_each(shop: Shop) -> None:
    everyone = asyncio.Barrier(20)

    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await write(connection, job)
            await everyone.wait()

    async with shop.working(only(handler), slots=20):
        jobs = await shop.enqueue_many(20)
        await shop.all_ended(jobs)
    assert sorted(job for job, _ in await effects(shop)) == sorted(jobs)


# ------------------------------------------------------------------------------------------------------- follow-ups


@pytest.mark.parametrize("fails", [False, True])
async def test_a_follow_up_appears_with_the_finish_or_not_at_all(shop: Shop, fails: bool) -> None:
    ran: list[str] = []
    handlers = Handlers()

    @handlers.add(Definition("first", max_attempts=1))
    async def first(job: Job, payload: Any) -> None:
        async with job.transaction() as connection:
            await shop.door.enqueue([NewJob(definition="second")], within=connection)
            assert (
                await shop.observer.fetchval("select count(*) from leasehold.jobs where definition = 'second'") == 0
            )
            await write(connection, job)
        if fails:
            raise ConnectionError

    @handlers.add(Definition("second"))
    async def second(job: Job, payload: Any) -> None:
        assert await effects(shop) != []
        ran.append(job.id)

    async with shop.working(handlers):
        job = await shop.enqueue("first")
        await shop.ended(job)
        if not fails:

            async def followed() -> bool:
                return bool(ran)

            await eventually(followed, what="the follow-up")
        else:
            assert await shop.observer.fetchval("select count(*) from leasehold.jobs") == 0
    assert len(ran) == (0 if fails else 1)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_follow_up_job_appears_with_the_finish_or_not_at_all(
    database_url: str, observer: Raw, fails: bool
) -> None:
    app = Leasehold(database_url)
    waiting = "select count(*) from leasehold.jobs where definition = 'second'"
    seen: list[int] = []

    @app.job
    async def second(job: Job) -> str:
        return job.tenant

    @app.job(max_attempts=1)
    async def first(job: Job) -> str:
        async with job.transaction() as connection:
            follow_up = await app.tenant(job.tenant).within(connection).aenqueue(second)
            await write(connection, job)
        seen.append(await observer.fetchval(waiting))
        if fails:
            raise ConnectionError
        return follow_up.id

    async with app.open(worker=True):
        placed = await app.tenant("acme").aenqueue(first)
        if fails:
            with pytest.raises(JobFailed):
                await placed.aresult(timeout=PATIENCE)
        else:
            follow_up = replace(placed, id=job_id(await placed.aresult(timeout=PATIENCE)), definition="second")
            assert await follow_up.aresult(timeout=PATIENCE) == "acme"
    written = await observer.fetchval("select count(*) from effects")
    assert (seen, written, await observer.fetchval(waiting)) == ([0], 0 if fails else 1, 0)


# ------------------------------------------------------------------------------------------- what a handler brings


async def run_one(shop: Shop, handler: Callable[[Job, Any], Any], **fields: Any) -> Any:
    async with shop.working(only(handler, **{"backoff": AT_ONCE, **fields})):
        return await shop.ended(await shop.enqueue())


async def test_an_async_session_of_sqlalchemy(shop: Shop, async_engine: AsyncEngine) -> None:
    async def handler(job: Job, payload: Any) -> str:
        async with job.transaction(AsyncSession(async_engine)) as session:
            await session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
            if job.attempt == 1:
                raise ConnectionError
        return "kept"

    record = await run_one(shop, handler)
    assert (record.status, record.result) == (Status.SUCCEEDED, "kept")
    assert await effects(shop) == [(record.id, "2")]


async def test_a_session_of_sqlalchemy_in_a_thread(shop: Shop, engine: Engine) -> None:
    threads: list[str] = []

    def handler(job: Job, payload: Any) -> str:
        threads.append(threading.current_thread().name)
        job.log("from a thread")
        with job.transaction(Session(engine)) as session:
            session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
        if job.attempt == 1:
            raise ConnectionError
        return "kept"

    record = await run_one(shop, handler)
    assert (record.status, record.result) == (Status.SUCCEEDED, "kept")
    assert await effects(shop) == [(record.id, "2")]
    assert all("handler" in name for name in threads)
    assert [line.text for line in await shop.lines(record.id, 2)] == ["from a thread"]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit


async def test_a_commit_whose_error_has_no_text_fails_its_own_job(shop: Shop, engine: Engine) -> None:
    class Broken(Session):
        def commit(self) -> None:
            raise Unspeakable

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(Broken(engine)):
            pass

    async with shop.working(only(handler, max_attempts=1)):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "Unspeakable")


async def test_scoped_sessions_of_sqlalchemy(shop: Shop, engine: Engine, async_engine: AsyncEngine) -> None:
    scoped = scoped_session(sessionmaker(engine))
    async_scoped = async_scoped_session(async_sessionmaker(async_engine), asyncio.current_task)
    given: list[bool] = []

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(scoped) as session:
            given.append(session is scoped)
            session.execute(insert(effects_table).values(job=job.id, attempt=f"sync {job.attempt}"))
        if job.attempt == 1:
            raise ConnectionError

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(async_scoped) as session:
            given.append(session is async_scoped)
            await session.execute(insert(effects_table).values(job=job.id, attempt=f"async {job.attempt}"))
        if job.attempt == 1:
            raise ConnectionError

    assert (await run_one(shop, handler)).status is Status.SUCCEEDED
    assert (await run_one(shop, async_handler)).status is Status.SUCCEEDED
    assert [attempt for _, attempt in await effects(shop)] == ["async 2", "sync 2"]
    assert given == [True] * 4


async def test_what_was_added_to_a_session_is_written_before_the_finish(shop: Shop, engine: Engine) -> None:
    """Its constraint is broken by the flush, not by the commit, while nothing is locked yet."""
    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "items"
        id: Mapped[int] = mapped_column(primary_key=True)

    await shop.observer.execute("create table items (id int primary key)")

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)) as session:
            session.add(Item(id=1))

    assert (await run_one(shop, handler, max_attempts=1)).status is Status.SUCCEEDED
    record = await run_one(shop, handler, max_attempts=1)
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "IntegrityError")
    assert await shop.observer.fetchval("select count(*) from items") == 1


@pytest.mark.parametrize("kind", ["session", "connection"])
async def test_a_session_within_its_own_begin_or_in_autocommit_is_refused(
    shop: Shop, engine: Engine, kind: str
) -> None:
    def handler(job: Job, payload: Any) -> None:
        if kind == "session":
            with Session(engine) as session, session.begin(), job.transaction(session):
                raise AssertionError
        with (
            engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
            job.transaction(connection),
        ):
            raise AssertionError

    record = await run_one(shop, handler, max_attempts=1)
    assert record.last_error_code == InvalidInput.__name__
    assert ("begin()" if kind == "session" else "autocommit") in record.last_error


async def test_a_session_closed_by_its_handler_fails_the_job_for_good(shop: Shop, async_engine: AsyncEngine) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with AsyncSession(async_engine) as session, job.transaction(session):
            await session.execute(insert(effects_table).values(job=job.id, attempt="1"))

    record = await run_one(shop, handler)
    assert (record.status, record.last_error_code) == (Status.FAILED, "transaction_ended")
    assert await effects(shop) == []


async def test_connections_of_sqlalchemy(shop: Shop, engine: Engine, async_engine: AsyncEngine) -> None:
    values = text("insert into effects values (:job, :attempt)")

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(engine.connect()) as connection:
            connection.execute(values, {"job": job.id, "attempt": "sync"})

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(await async_engine.connect()) as connection:
            await connection.execute(values, {"job": job.id, "attempt": "async"})

    records = [await run_one(shop, handler), await run_one(shop, async_handler)]
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert [attempt for _, attempt in await effects(shop)] == ["async", "sync"]


async def test_connections_of_psycopg(shop: Shop, database_url: str) -> None:
    def handler(job: Job, payload: Any) -> None:
        connection = psycopg.connect(database_url, row_factory=dict_row)
        with job.transaction(connection):
            connection.execute("insert into effects values (%s, %s)", (job.id, f"sync {job.attempt}"))
            if job.attempt == 1:
                raise ConnectionError

    async def async_handler(job: Job, payload: Any) -> None:
        async with job.transaction(await psycopg.AsyncConnection.connect(database_url)) as connection:
            await connection.execute("insert into effects values (%s, %s)", (job.id, f"async {job.attempt}"))
            if job.attempt == 1:
                raise ConnectionError

    records = [await run_one(shop, handler), await run_one(shop, async_handler)]
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert [attempt for _, attempt in await effects(shop)] == ["async 2", "sync 2"]


async def test_a_connection_of_a_psycopg_pool_goes_back_to_it(shop: Shop, database_url: str) -> None:
    with ConnectionPool(database_url, min_size=1, max_size=1, open=True) as pool:

        def handler(job: Job, payload: Any) -> None:
            with job.transaction(pool.getconn(timeout=20)) as connection:
                connection.execute("insert into effects values (%s, %s)", (job.id, str(job.attempt)))
                if job.attempt == 1:
                    raise ConnectionError

        record = await run_one(shop, handler)
        assert record.attempt == 2
        with pool.connection(timeout=20) as connection:
            assert connection.execute("select count(*) from effects").fetchone() == (1,)


async def test_a_connection_of_asyncpg_and_one_of_its_pools(shop: Shop, database_url: str) -> None:
    async with asyncpg.create_pool(database_url, min_size=0, max_size=1) as pool:

        async def handler(job: Job, payload: Any) -> None:
            brought = await (asyncpg.connect(database_url) if job.attempt == 1 else pool.acquire())
            async with job.transaction(brought) as connection:
                await write(connection, job)
            if job.attempt < 3:
                raise ConnectionError

        record = await run_one(shop, handler)
    assert record.attempt == 3
    assert await effects(shop) == [(record.id, "3")]


async def test_an_asyncpg_connection_in_a_transaction_is_refused(shop: Shop, database_url: str) -> None:
    async def handler(job: Job, payload: Any) -> None:
        connection = await asyncpg.connect(database_url)
        try:
            async with connection.transaction(), job.transaction(connection):
                raise AssertionError
        finally:
            await connection.close()

    record = await run_one(shop, handler, max_attempts=1)
    assert "in a transaction" in (record.last_error or "")


async def test_what_can_not_be_written_in_and_the_wrong_colour_are_refused(
    shop: Shop, engine: Engine, async_engine: AsyncEngine
) -> None:
    async def unknown(job: Job, payload: Any) -> None:
        async with job.transaction(engine):
            raise AssertionError

    async def blocking(job: Job, payload: Any) -> None:
        async with job.transaction(Session(engine)):
            raise AssertionError

    async def with_in_a_coroutine(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)):
            raise AssertionError

    def nothing_in_a_thread(job: Job, payload: Any) -> None:
        with job.transaction():
            raise AssertionError

    for handler, why in (
        (unknown, "sqlalchemy.engine.base.Engine"),
        (blocking, "event loop"),
        (with_in_a_coroutine, "plain functions"),
        (nothing_in_a_thread, "of yours"),
    ):
        record = await run_one(shop, handler, max_attempts=1)
        assert why in (record.last_error or "")


async def test_a_thread_that_ran_too_long_rolls_back_when_it_ends(shop: Shop, engine: Engine) -> None:
    go, wrote = threading.Event(), list[int]()

    def handler(job: Job, payload: Any) -> None:
        with job.transaction(Session(engine)) as session:
            session.execute(insert(effects_table).values(job=job.id, attempt=str(job.attempt)))
        wrote.append(job.attempt)
        if job.attempt == 1:
            go.wait(PATIENCE.total_seconds())

    async with shop.working(only(handler, timeout=TIMEOUT, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
        go.set()

        async def none_is_open() -> bool:
            return bool(engine.pool.checkedout() == 0)  # type: ignore[attr-defined]

        await eventually(none_is_open, what="the rollback")
    assert (record.attempt, wrote) == (2, [1, 2])
    assert await effects(shop) == [(job, "2")]


async def test_a_handler_that_connects_to_another_database_is_told_so(shop: Shop, other_database: str) -> None:
    async def handler(job: Job, payload: Any) -> None:
        async with job.transaction(await asyncpg.connect(other_database)):
            pass

    record = await run_one(shop, handler, max_attempts=1)
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "transaction_elsewhere")


@pytest.fixture
async def other_database(database_server: Any) -> AsyncIterator[str]:
    name = await database_server.clone()
    yield database_server.url_for(name)
    await database_server.drop(name)


async def test_a_role_that_may_call_the_function_can_finish(shop: Shop, database_url: str) -> None:
    role = f"handler_{uuid4().hex}"
    await shop.observer.execute(
        f"create role {role}; grant usage on schema leasehold to {role}; grant insert on effects to {role};"
        f"grant execute on function leasehold.finish_within to {role}"
    )
    try:

        async def handler(job: Job, payload: Any) -> None:
            connection = await asyncpg.connect(database_url)
            await connection.execute(f"set role {role}")
            async with job.transaction(connection):
                await write(connection, job)
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with connection.transaction():
                        await connection.execute("select from leasehold.jobs")

        record = await run_one(shop, handler)
        assert await effects(shop) == [(record.id, "1")]
    finally:
        await shop.observer.execute(f"drop owned by {role}; drop role {role}")

"""Effects that happen once: what a handler writes in job.transaction() is kept with its finish, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session
from tests.conftest import eventually
from tests.worker.effects import effects, effects_table, run_one, write
from tests.worker.shop import AT_ONCE, Shop, only

from leasehold.model.definition import Definition, Retention
from leasehold.model.status import AttemptStatus, Status
from leasehold.telemetry import Event, JobEnded
from leasehold.worker import Fail, Job, Snooze

pytestmark = pytest.mark.usefixtures("effects_table")


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
    assert await shop.statuses(job) == [AttemptStatus.SUCCEEDED]


async def test_a_job_finished_in_its_transaction_is_reported_once(shop: Shop) -> None:
    ended: list[Event] = []

    async def handler(job: Job, payload: Any) -> None:
        job.log("written before the finish")
        async with job.transaction():
            pass

    shop.stores.count("finish")
    async with shop.working(
        only(handler), observe=lambda event: ended.append(event) if isinstance(event, JobEnded) else None
    ):
        job = await shop.enqueue()
        await shop.ended(job)

        async def told() -> bool:
            return bool(ended)

        await eventually(told, what="the event")
    assert shop.stores.calls["finish"] == 0
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
    assert await shop.statuses(job) == [AttemptStatus.FAILED, AttemptStatus.SUCCEEDED]


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
        attempts = await shop.jobs.attempts(job)
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

    shop.stores.step_in("transaction", look_before_the_commit)
    async with shop.working(only(handler)):
        await shop.ended(await shop.enqueue())
    assert setting == ["on", "10s"]


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


# ------------------------------------------------------------------------------------------- what a handler brings


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

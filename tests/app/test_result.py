"""Waiting for the result of a job."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from pydantic import BaseModel
from tests.conftest import PATIENCE, eventually

from leasehold import (
    Fail,
    InvalidInput,
    Job,
    JobFailed,
    Leasehold,
    PayloadInvalid,
    ResultTimeout,
    Snooze,
    Status,
    Steps,
    UnknownJob,
)
from leasehold.engines.postgres import tenant
from leasehold.errors import BlockingCall

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
SECONDS = PATIENCE.total_seconds()


class Order(BaseModel):
    number: int
    placed: datetime


async def test_a_result_comes_back_as_what_the_handler_returned(app: Leasehold) -> None:
    @app.job
    async def ship(job: Job, order: Order) -> list[Order]:
        return [order, Order(number=order.number + 1, placed=order.placed)]

    @app.job
    async def untyped(job: Job):  # type: ignore[no-untyped-def]
        return {"any": ["JSON"]}

    first = Order(number=1, placed=NOON)
    async with app.open(worker=True):
        acme = app.tenant("acme")
        shipped = await (await acme.aenqueue(ship, first)).aresult(SECONDS)
        assert shipped == [first, Order(number=2, placed=NOON)]
        assert await (await acme.aenqueue(untyped)).aresult(SECONDS) == {"any": ["JSON"]}


async def test_a_blocking_caller_on_a_loop_is_told_of_the_twin(app: Leasehold) -> None:
    @app.job
    async def add(job: Job, first: int, second: int) -> int:
        return first + second

    async with app.open(worker=True):
        placed = await app.tenant("acme").aenqueue(add, 2, 3)
        with pytest.raises(BlockingCall, match="aresult"):
            placed.result(timeout=1)
        assert await asyncio.to_thread(placed.result, "30s") == 5
    await asyncio.to_thread(app.close)


async def test_a_waiter_is_woken_when_the_job_ends_and_not_by_its_own_timer(
    app: Leasehold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant, "RESULT_FALLBACK", timedelta(hours=1))
    go = asyncio.Event()

    @app.job
    async def wait(job: Job) -> str:
        await go.wait()
        return "gone"

    async with app.open(worker=True):
        placed = await app.tenant("acme").aenqueue(wait)
        waits = [asyncio.create_task(placed.aresult()) for _ in range(3)]
        await marked_as_awaited(app, placed.id)
        go.set()
        assert await asyncio.wait_for(asyncio.gather(*waits), SECONDS) == ["gone"] * 3


async def test_a_job_that_did_not_succeed_raises_with_its_error(app: Leasehold) -> None:
    @app.job
    async def fail(job: Job) -> int:
        raise Fail("no such folder")

    @app.job(max_attempts=2, backoff=Steps(0))
    async def stumble(job: Job) -> int:
        raise ConnectionError(f"attempt {job.attempt}")

    @app.job
    async def never(job: Job) -> int:
        return 1

    async with app.open(worker=True):
        acme = app.tenant("acme")
        failed = await acme.aenqueue(fail)
        with pytest.raises(JobFailed, match=r"LH-1011.*'fail' failed \(Fail: no such folder\)") as raised:
            await failed.aresult(SECONDS)
        error = raised.value
        assert (error.job, error.status, error.error, error.error_code) == (
            failed.id,
            Status.FAILED,
            "no such folder",
            "Fail",
        )
        with pytest.raises(JobFailed, match="dead letter") as raised:
            await (await acme.aenqueue(stumble)).aresult(SECONDS)
        assert (raised.value.status, raised.value.error) == (Status.DEAD_LETTER, "attempt 2")
        canceled = await acme.options(delay="1h").aenqueue(never)
        await acme.acancel(canceled.id)
        with pytest.raises(JobFailed, match="was canceled") as raised:
            await canceled.aresult(SECONDS)
        assert (raised.value.status, raised.value.error) == (Status.CANCELED, None)


async def test_a_failed_attempt_is_not_the_end_of_the_wait(app: Leasehold) -> None:
    @app.job(backoff=Steps(0))
    async def third_time(job: Job) -> int:
        if job.attempt == 1:
            raise ConnectionError
        if job.attempt == 2:
            raise Snooze(timedelta())
        return job.attempt

    async with app.open(worker=True):
        assert await (await app.tenant("acme").aenqueue(third_time)).aresult(SECONDS) == 3


async def test_a_caller_that_waits_too_short_gets_a_timeout(app: Leasehold) -> None:
    @app.job
    async def later(job: Job) -> int:
        return 1

    async with app.open():
        acme = app.tenant("acme")
        placed = await acme.aenqueue(later)
        for timeout in (0, 0.01, "10ms", timedelta()):
            with pytest.raises(TimeoutError, match=r"LH-1012.*it is ready. It goes on") as raised:
                await placed.aresult(timeout)
            assert isinstance(raised.value, ResultTimeout)
        assert (await acme.aget(placed.id)).status is Status.QUEUED
        async with app.open(worker=True):
            assert await placed.aresult(SECONDS) == 1


@pytest.mark.parametrize("timeout", [True, float("nan"), object(), "soon"])
async def test_what_is_no_time_to_wait_is_refused(app: Leasehold, timeout: Any) -> None:
    @app.job
    async def later(job: Job) -> int:
        return 1

    async with app.open():
        placed = await app.tenant("acme").aenqueue(later)
        with pytest.raises(InvalidInput, match=r"LH-1000"):
            await placed.aresult(timeout)


async def test_what_was_pruned_is_unknown(app: Leasehold, database_url: str) -> None:
    @app.job
    async def later(job: Job) -> int:
        return 1

    async with app.open():
        placed = await app.tenant("acme").aenqueue(later)
        connection = await asyncpg.connect(database_url)
        await connection.execute("delete from leasehold.jobs")
        await connection.close()
        with pytest.raises(UnknownJob, match=r"LH-1008.*pruned"):
            await placed.aresult()


async def test_a_job_is_unknown_before_its_callers_commit(app: Leasehold, database_url: str) -> None:
    @app.job
    async def later(job: Job) -> int:
        return 1

    connection = await asyncpg.connect(database_url)
    try:
        async with app.open(), connection.transaction():
            placed = await app.tenant("acme").within(connection).aenqueue(later)
            with pytest.raises(UnknownJob, match=r"LH-1008.*not committed yet.*commit before you ask"):
                await placed.aresult()
    finally:
        await connection.close()


async def test_a_result_of_another_return_type_is_refused(app: Leasehold, database_url: str) -> None:
    @app.job
    async def count(job: Job) -> int:
        return 1

    async with app.open(worker=True):
        placed = await app.tenant("acme").aenqueue(count)
        assert await placed.aresult(SECONDS) == 1
        connection = await asyncpg.connect(database_url)
        await connection.execute("""update leasehold.jobs_done set result = '"many"'""")
        await connection.close()
        with pytest.raises(PayloadInvalid, match="is not what 'count' returns"):
            await placed.aresult(SECONDS)


async def marked_as_awaited(app: Leasehold, job: str) -> None:
    connection = await asyncpg.connect(app.settings.url)

    async def marked() -> bool:
        return bool(await connection.fetchval("select awaited from leasehold.jobs where id = $1::uuid", job))

    try:
        await eventually(marked, what="the mark of the waiters")
    finally:
        await connection.close()

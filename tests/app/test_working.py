"""Handlers of an app, run by a worker in the user's own process."""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from tests.app.helpers import ended
from tests.conftest import PATIENCE, eventually

import leasehold
from leasehold import Fail, Job, Leasehold, Snooze, Status, Steps, WorkerSettings
from leasehold.app import in_process_worker
from leasehold.app.in_process_worker import combine_settings
from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob, tenant_id
from leasehold.worker import worker
from leasehold.worker.session import WorkerSession

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


async def test_a_coroutine_runs_with_its_arguments_and_its_result_is_kept(app: Leasehold) -> None:
    @app.job
    async def add(job: Job, first: int, second: int = 10) -> int:
        job.log(f"adding for {job.tenant}")
        return first + second

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(add, 5))
        assert (job.status, job.result) == (Status.SUCCEEDED, 15)
        assert [line.text for line in (await app.tenant("acme").jobs.alines(job.id)).lines] == ["adding for acme"]


async def test_a_plain_function_runs_in_a_thread_and_may_enqueue_more(app: Leasehold) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def second(job: Job) -> None:
        loop.call_soon_threadsafe(done.set)

    @app.job
    def first(job: Job) -> str:
        return app.tenant(job.tenant).enqueue(second).id

    async with app.open(worker=True):
        await app.tenant("acme").aenqueue(first)
        await asyncio.wait_for(done.wait(), PATIENCE.total_seconds())
    await asyncio.to_thread(app.close)


async def test_typed_arguments_and_results_go_through_json_both_ways(app: Leasehold) -> None:
    class Order(BaseModel):
        number: int
        placed: datetime

    @app.job
    async def ship(job: Job, order: Order, after: timedelta) -> Order:
        return Order(number=order.number + 1, placed=order.placed + after)

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(ship, Order(number=1, placed=NOON), timedelta(1)))
        assert job.result == {"number": 2, "placed": "2030-01-03T12:00:00Z"}


async def test_a_result_that_json_can_not_hold_ends_the_job_as_failed(app: Leasehold) -> None:
    @app.job
    async def unusable(job: Job) -> object:
        return object()

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(unusable))
        assert (job.status, job.last_error_code) == (Status.FAILED, "result_invalid")


async def test_what_a_handler_raises_decides_as_ever(app: Leasehold) -> None:
    @app.job(backoff=Steps(0), max_attempts=3)
    async def moody(job: Job, mood: str) -> int:
        if mood == "fail":
            raise Fail("no use")
        if mood == "snooze" and job.attempt == 1:
            raise Snooze(timedelta())
        if mood == "flaky" and job.attempt < 3:
            raise ValueError("not yet")
        return job.attempt

    async with app.open(worker=True):
        acme = app.tenant("acme")
        jobs = [await ended(app, await acme.aenqueue(moody, mood)) for mood in ("fail", "snooze", "flaky")]
    assert [(job.status, job.result) for job in jobs] == [
        (Status.FAILED, None),
        (Status.SUCCEEDED, 2),
        (Status.SUCCEEDED, 3),
    ]


async def test_leaving_the_block_drains_and_leaves_no_worker(app: Leasehold, database_url: str) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow(job: Job) -> str:
        begun.set()
        await release.wait()
        return "done"

    async with app.open():
        async with app.open(worker=WorkerSettings(slots=1)):
            placed = await app.tenant("acme").aenqueue(slow)
            await begun.wait()
            assert [worker.facts.slots for worker in await app.store.workers()] == [1]
            asyncio.get_running_loop().call_later(0.05, release.set)
        assert (await app.tenant("acme").aget(placed.id)).result == "done"
        assert await app.store.workers() == []


async def test_outside_of_open_there_is_no_store(app: Leasehold) -> None:
    with pytest.raises(InvalidInput, match="not open on this event loop"):
        _ = app.store


# ----------------------------------------------------------------------------------------------------------- versions


async def test_definitions_are_registered_at_the_first_enqueue(
    app: Leasehold, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasehold")

    async def sync(job: Job, provider_id: str) -> None: ...

    async with app.open():
        await app.tenant("acme").aenqueue(app.job(timeout="10m")(sync), "p")
    assert "sync: registered as version 1" in caplog.text

    changed = Leasehold(database_url)
    async with changed.open():
        await changed.tenant("acme").aenqueue(changed.job(timeout="20m")(sync), "p")
    assert "sync: now version 2 (timeout: 0:10:00 → 0:20:00)" in caplog.text


async def test_old_and_new_producers_each_pin_their_own_version(app: Leasehold, database_url: str) -> None:
    async def old(job: Job, provider_id: str) -> None: ...
    async def new(job: Job, provider_id: str, limit: int = 5) -> None: ...

    other = Leasehold(database_url)
    in_old, in_new = app.job(key="sync")(old), other.job(key="sync")(new)
    async with app.open(), other.open():
        acme, acme_too = app.tenant("acme"), other.tenant("acme")
        versions = [
            (await acme.aget((await producer).id)).version
            for producer in (
                acme.aenqueue(in_old, "p"),
                acme_too.aenqueue(in_new, "p"),
                acme.aenqueue(in_old, "p"),
                acme_too.aenqueue(in_new, "p", limit=9),
            )
        ]
    assert versions == [1, 2, 1, 2]


async def test_a_payload_that_the_worker_can_not_take_is_retried(app: Leasehold) -> None:
    """While a deploy is under way, a worker with the new code may take it."""

    @app.job(key="sync")
    async def sync(job: Job, provider_id: str) -> None: ...

    async with app.open():
        newer = Definition("sync")
        await app.store.sync_definitions([newer])
        (placed,) = await app.store.tenant(tenant_id("acme")).enqueue(
            [NewJob(definition="sync", payload={"provider_id": "p", "limit": 5}, version=1)]
        )
        async with app.open(worker=True):

            async def refused() -> bool:
                return (await app.tenant("acme").aget(placed.id)).last_error is not None

            await eventually(refused, what="the refusal")
        job = await app.tenant("acme").aget(placed.id)
    assert job.status is Status.QUEUED
    assert job.last_error is not None
    assert "limit: unknown argument" in job.last_error


# ------------------------------------------------------------------------------------------ opened by several, dying


@pytest.mark.parametrize("first_out", ["first", "second"])
async def test_opened_twice_on_one_loop_the_last_one_closes(app: Leasehold, first_out: str) -> None:
    @app.job
    async def noop(job: Job) -> None: ...

    leave = {"first": asyncio.Event(), "second": asyncio.Event()}
    inside = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def use(name: str) -> None:
        async with app.open():
            inside[name].set()
            await leave[name].wait()

    using = {name: asyncio.create_task(use(name)) for name in leave}
    await asyncio.gather(*(event.wait() for event in inside.values()))
    leave[first_out].set()
    await using.pop(first_out)
    assert app.store is not None
    await app.tenant("acme").aenqueue(noop)
    for event in leave.values():
        event.set()
    await asyncio.gather(*using.values())
    with pytest.raises(InvalidInput):
        _ = app.store


async def test_a_worker_that_can_not_begin_says_so_at_once(app: Leasehold) -> None:
    app.handlers.add(Definition("broken", schema={"type": 5}))(lambda job, payload: None)
    with pytest.raises(InvalidInput, match="schema can't be used"):
        async with app.open(worker=True):
            pytest.fail("the block must not run")


async def test_the_block_s_own_error_comes_out_as_it_is(app: Leasehold) -> None:
    @app.job
    async def noop(job: Job) -> None: ...

    with pytest.raises(KeyError, match="mine"):
        async with app.open(worker=True):
            raise KeyError("mine")


async def test_a_worker_that_dies_is_begun_again(
    app: Leasehold, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process_worker, "PAUSE", 0.01)

    @app.job
    async def noop(job: Job) -> str:
        return "done"

    serve = WorkerSession.serve
    served: list[WorkerSession] = []

    async def dies_once(session: WorkerSession, *arguments: asyncio.Event) -> None:
        served.append(session)
        if len(served) == 1:
            raise RuntimeError("worn out")
        await serve(session, *arguments)

    monkeypatch.setattr(WorkerSession, "serve", dies_once)
    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(noop))
    assert job.result == "done"
    assert "the worker in this process died" in caplog.text


async def test_a_worker_with_too_many_stuck_handlers_is_not_begun_again(
    app: Leasehold, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new worker would count from 0, and their threads would pile up in this process."""
    monkeypatch.setattr(in_process_worker, "PAUSE", 0.01)
    monkeypatch.setattr(worker, "MOST_STUCK", -1)
    let_go = threading.Event()

    @app.job(timeout="100ms", max_attempts=1)
    def hang(job: Job) -> None:
        assert let_go.wait(3 * PATIENCE.total_seconds())

    async def has_ended() -> bool:
        return "leasehold worker" not in {task.get_name() for task in asyncio.all_tasks()}

    try:
        async with app.open(worker=WorkerSettings(slots=1)):
            await app.tenant("acme").aenqueue(hang)
            await eventually(has_ended, what="the end of the worker")
            assert await app.store.workers() == []
    finally:
        let_go.set()
    (said,) = [record for record in caplog.records if "is not begun again" in record.getMessage()]
    assert said.levelno == logging.ERROR


async def test_a_result_that_contains_itself_is_final_and_not_retried(app: Leasehold) -> None:
    runs = []

    @app.job(backoff=Steps(0))
    async def endless(job: Job) -> list[Any]:
        runs.append(job.attempt)
        result: list[Any] = []
        result.append(result)
        return result

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(endless))
    assert (job.status, runs) == (Status.FAILED, [1])


async def test_a_huge_typed_result_is_refused_before_all_of_it_is_seen(app: Leasehold) -> None:
    """Ten billion numbers: turning them into JSON would take the loop an hour."""

    @app.job
    async def report(job: Job) -> dict[str, list[list[int]]]:
        return {"rows": [[0] * 100_000] * 100_000}

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(report))
    assert (job.status, job.last_error_code) == (Status.FAILED, "result_invalid")
    assert "far more than 262,144 bytes of JSON" in (job.last_error or "")


def test_worker_settings_are_combined_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_NOTIFY", "off")
    monkeypatch.setenv("LEASEHOLD_LOG_LINES", "50")
    settings = combine_settings(WorkerSettings(slots=2), Leasehold().worker_settings())
    assert (settings.slots, settings.notify, settings.log_lines) == (2, False, 50)
    assert settings.version == leasehold.__version__

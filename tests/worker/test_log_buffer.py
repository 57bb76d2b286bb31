"""Log lines and progress of handlers: they are written in batches, before the finish, and within bounds."""

import asyncio
import logging
import threading
from collections import Counter
from time import monotonic
from typing import Any

import pytest
from tests.conftest import eventually
from tests.worker.shop import Payload, Shop, Verb, only, session_of

from leasehold.model.definition import Definition
from leasehold.model.job import Claim, LineKind
from leasehold.model.status import Status
from leasehold.worker import Fail, Job


async def test_a_job_that_says_nothing_causes_no_write(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    shop.stores.count("append_log")
    async with shop.working(only(report)):
        await shop.all_ended(await shop.enqueue_many(20))
    assert shop.stores.calls["append_log"] == 0


async def test_what_is_said_is_written_in_batches_of_about_a_second(shop: Shop) -> None:
    lasted = 0.0

    async def report(job: Job, payload: Payload) -> None:
        nonlocal lasted
        began = monotonic()
        for number in range(300):
            job.log(f"line {number}")
            await asyncio.sleep(0.004)
        lasted = monotonic() - began

    shop.stores.count("append_log")
    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == [f"line {number}" for number in range(300)]
    first_and_last = 2
    assert shop.stores.calls["append_log"] <= lasted + first_and_last


async def test_what_many_jobs_say_at_once_is_written_together(shop: Shop) -> None:
    everyone_speaks = asyncio.Barrier(10)

    async def report(job: Job, payload: Payload) -> None:
        job.log("hello")
        await everyone_speaks.wait()

    shop.stores.count("append_log")
    async with shop.working(only(report)):
        jobs = await shop.enqueue_many(10)
        await shop.all_ended(jobs)
        assert [[line.text for line in await shop.lines(job)] for job in jobs] == [["hello"]] * 10
    assert shop.stores.calls["append_log"] < 10


async def test_what_is_said_can_be_read_while_the_job_runs(shop: Shop) -> None:
    go_on = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        job.log("half way")
        job.progress(0.5, "rows")
        await go_on.wait()

    async with shop.working(only(report)):
        job = await shop.enqueue()

        async def readable() -> bool:
            return len(await shop.lines(job)) == 2

        await eventually(readable, what="lines of a running job")
        said, shown = await shop.lines(job)
        assert (await shop.job(job)).status is Status.RUNNING
        go_on.set()
        await shop.ended(job)
    assert (said.kind, said.text) == (LineKind.LOG, "half way")
    assert (shown.kind, shown.text, shown.progress) == (LineKind.PROGRESS, "rows", 0.5)


async def test_a_handler_in_a_thread_can_speak_too(shop: Shop) -> None:
    def report(job: Job, payload: Payload) -> None:
        for number in range(10):
            job.log(str(number))

    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == [str(number) for number in range(10)]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udfff", "x" * 50_000], ids=repr)
async def test_text_that_can_not_be_stored_is_stored_as_well_as_it_can_be(shop: Shop, text: str) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log(text)
        job.progress(float("nan"), text)
        raise Fail(text)

    async with shop.working(only(report)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.FAILED
    assert len(await shop.lines(job)) == 2


async def test_what_is_no_text_is_said_as_text(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        job.log(ValueError("no such row"))  # type: ignore[arg-type]

    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == ["no such row"]


async def test_a_line_after_the_end_of_its_attempt_is_ignored(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    kept, claims = list[Job](), list[Claim]()

    async def report(job: Job, payload: Payload) -> None:
        job.log("in time")
        kept.append(job)
        claims.extend(worker.state().claims)

    shop.stores.count("append_log")
    async with shop.working(only(report)) as worker:
        job = await shop.enqueue()
        await shop.ended(job)

        async def done_with() -> bool:
            return not worker.running

        await eventually(done_with, what="the worker's last look at the ended job")
        said = shop.stores.calls["append_log"]
        kept[0].log("too late")
        session = session_of(worker)
        await session.finisher.log_buffer.write(session.calls.store, claims)
    assert shop.stores.calls["append_log"] == said
    assert [line.text for line in await shop.lines(job)] == ["in time"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_line_before_return_is_stored_before_the_finish(shop: Shop) -> None:
    """40 of 1,064 last lines were on their way to the buffer when the finish looked into it."""

    async def on_the_loop(job: Job, payload: Payload) -> None:
        job.log("the last line")

    def in_a_thread(job: Job, payload: Payload) -> None:
        job.log("the last line")

    handlers = only(on_the_loop, "async")
    handlers.add(Definition("sync"))(in_a_thread)
    unwritten: list[str] = []

    def watched(finish: Verb) -> Verb:
        async def verb(finishes: Any) -> Any:
            jobs = {str(claim.job) for claim, _ in finishes}
            rows = await shop.observer.fetch("select job_id from leasehold.job_lines where job_id = any($1)", jobs)
            unwritten.extend(jobs - {str(row["job_id"]) for row in rows})
            return await finish(finishes)

        return verb

    shop.stores.step_in("finish", watched)
    await shop.store.sync_definitions(handlers.definitions)
    jobs = [job for key in ("async", "sync") for job in await shop.enqueue_many(100, key)]
    async with shop.working(handlers, slots=50):
        await shop.all_ended(jobs)
    assert unwritten == []
    assert {len(await shop.lines(job)) for job in jobs} == {1}


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_a_flood_of_lines_is_bounded_and_says_what_it_dropped(shop: Shop, colour: str) -> None:
    """A line each was posted to the loop, however many there were."""
    posted: Counter[int] = Counter()
    loop, flooding = asyncio.get_running_loop(), set[int]()
    post = loop.call_soon_threadsafe

    def counted(*arguments: Any, **named: Any) -> asyncio.Handle:
        posted[threading.get_ident()] += 1
        return post(*arguments, **named)

    def flood(job: Job) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", counted)
            flooding.add(threading.get_ident())
            for number in range(50_000):
                job.log(f"line {number}")

    async def on_the_loop(job: Job, payload: Payload) -> None:
        flood(job)

    def in_a_thread(job: Job, payload: Payload) -> None:
        flood(job)

    async with shop.working(only(on_the_loop if colour == "async" else in_a_thread)):
        job = await shop.enqueue()
        await shop.ended(job)
    lines = [row["text"] for row in await shop.observer.fetch("select text from leasehold.job_lines")]
    dropped = [int(text.split()[1].replace(",", "")) for text in lines if "were dropped here" in text]
    assert len(lines) - len(dropped) + sum(dropped) == 50_000
    assert dropped
    # One for each time that the loop has taken the lines meanwhile, which depends on the machine: 15 to 120.
    assert 1 <= posted[flooding.pop()] <= 1_000

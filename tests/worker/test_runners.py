"""Runners: a coroutine runs on the loop, a plain function in a thread; both know their job."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

from tests.conftest import eventually
from tests.worker.shop import AT_ONCE, QUICKLY, Payload, Shop, only, session_of, wait_for

from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.model.status import Status
from leasehold.worker import Handlers, Job
from leasehold.worker.claims import ClaimState


async def test_an_async_handler_runs_on_the_loop(shop: Shop) -> None:
    loop = asyncio.get_running_loop()

    async def report(job: Job, payload: Payload) -> bool:
        return asyncio.get_running_loop() is loop

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result is True


async def test_context_variables_do_not_pass_from_job_to_job(shop: Shop) -> None:
    who: ContextVar[str] = ContextVar("who")
    begun: list[str] = []

    async def report(job: Job, payload: Payload) -> str:
        begun.append(job.id)
        before = who.get("nobody")
        who.set(job.id)
        if len(begun) == 1:
            await eventually(somebody_stands_in_line, what="a job that waits for this one's slot")
        return before

    async with shop.working(only(report), slots=1) as worker:
        session = session_of(worker)
        for _ in range(100):  # of short jobs more are claimed than there are slots
            session.starter.budget.note_time(0.0)

        async def somebody_stands_in_line() -> bool:
            return ClaimState.STARTING in worker.state().claims.values()

        jobs = await shop.jobs.enqueue([NewJob(definition="report")] * 2)
        assert [(await shop.ended(job.id)).result for job in jobs] == ["nobody", "nobody"]


async def test_a_sync_handler_runs_in_a_thread(shop: Shop) -> None:
    def report(job: Job, payload: Payload) -> str:
        return threading.current_thread().name

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result.startswith("leasehold-handler")


async def test_a_sync_handler_does_not_keep_others_from_running(shop: Shop) -> None:
    handlers, go_on = Handlers(), threading.Event()

    @handlers.add(Definition("slow"))
    def slow(job: Job, payload: Payload) -> None:
        wait_for(go_on)

    @handlers.add(Definition("quick"))
    async def quick(job: Job, payload: Payload) -> None: ...

    async with shop.working(handlers):
        held = await shop.enqueue("slow")
        await shop.ended(await shop.enqueue("quick"))
        assert (await shop.job(held)).status is Status.RUNNING
        go_on.set()
        assert (await shop.ended(held)).status is Status.SUCCEEDED


async def test_a_handler_gets_its_payload_and_knows_its_job(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> list[Any]:
        return [payload, job.id, job.tenant, job.definition, job.attempt, job.tries, job.max_attempts]

    async with shop.working(only(report, max_attempts=7)):
        job = await shop.enqueue(payload={"customer": 42})
        assert (await shop.ended(job)).result == [{"customer": 42}, job, "acme", "report", 1, 1, 7]


async def test_threads_that_never_come_back_take_no_slot_with_them(shop: Shop) -> None:
    handlers, let_go = Handlers(), threading.Event()

    @handlers.add(Definition("stuck", timeout=QUICKLY, max_attempts=1))
    def stuck(job: Job, payload: Payload) -> None:
        wait_for(let_go)

    @handlers.add(Definition("other"))
    def other(job: Job, payload: Payload) -> None: ...

    try:
        async with shop.working(handlers, slots=2):
            for record in await shop.all_ended(await shop.enqueue_many(2, "stuck")):
                assert record.last_error_code == "timeout"
            assert (await shop.ended(await shop.enqueue("other"))).status is Status.SUCCEEDED
    finally:
        let_go.set()


async def test_the_idempotency_key_belongs_to_a_job_not_to_an_attempt(shop: Shop) -> None:
    seen: dict[str, list[str]] = {}

    async def report(job: Job, payload: Payload) -> None:
        seen.setdefault(job.id, []).append(job.idempotency_key)
        if job.attempt < 3:
            raise ValueError("again")

    async with shop.working(only(report, backoff=AT_ONCE)):
        await shop.all_ended(await shop.enqueue_many(5))
    assert [len(keys) for keys in seen.values()] == [3] * 5
    assert len({key for keys in seen.values() for key in keys}) == 5

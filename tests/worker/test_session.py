"""The tasks of a session: after an error a task is begun again, and no job is lost or finished twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import SETTINGS, SHORT, Payload, Processes, Shop, Verb, only, raising

from leasehold.model.backoff import Steps
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Subscription, Wake, WorkerFacts
from leasehold.worker import Handlers, Job, Worker
from leasehold.worker.wake import WakeChain

CRASHED, GIVEN_BACK, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED
INJECTED = RuntimeError("injected by the test")


@pytest.fixture
def ran() -> Counter[JobId]:
    return Counter()


@pytest.fixture
async def handlers(shop: Shop, ran: Counter[JobId]) -> Handlers:
    async def report(job: Job, payload: Payload) -> None:
        ran[job.id] += 1

    handlers = only(report, backoff=Steps(0))
    await shop.store.sync_definitions(handlers.definitions)
    return handlers


async def all_done_once(shop: Shop, jobs: list[JobId], ran: Counter[JobId]) -> bool:
    records = await shop.all_ended(jobs)
    return {record.status for record in records} == {Status.SUCCEEDED} and ran == dict.fromkeys(jobs, 1)


def begun_again(caplog: pytest.LogCaptureFixture, name: str) -> bool:
    return caplog.text.count(f"{name} died and is begun again") == 1


async def test_listener(
    shop: Shop, handlers: Handlers, ran: Counter[JobId], caplog: pytest.LogCaptureFixture
) -> None:
    """It hears again afterwards: the fallback is an hour away."""
    deaf = True

    async def broken() -> AsyncGenerator[Wake, None]:
        nonlocal deaf
        deaf = False
        yield Wake.WORK
        raise INJECTED

    def once(wakes: Verb) -> Verb:
        return lambda registration: broken() if deaf else wakes(registration)

    shop.stores.step_in("wakes", once)
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        assert await all_done_once(shop, await shop.enqueue_many(5), ran)
    assert begun_again(caplog, "listener")


@pytest.mark.parametrize("verb", ["claim", "prepare_to_sleep", "wake_another"])
async def test_dispatcher(
    shop: Shop, handlers: Handlers, ran: Counter[JobId], caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    shop.stores.step_in(verb, raising(INJECTED))
    async with shop.working(handlers, slots=2) as worker:
        await shop.at_rest(worker)
        assert await all_done_once(shop, await shop.enqueue_many(50), ran)
    assert begun_again(caplog, "dispatcher")


async def test_timer(
    shop: Shop,
    handlers: Handlers,
    ran: Counter[JobId],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arm, armed = WakeChain.arm, 0

    def broken_once(self: WakeChain, next_due: timedelta | None) -> None:
        nonlocal armed
        armed += 1
        if armed == 1:
            raise INJECTED
        arm(self, next_due)

    monkeypatch.setattr(WakeChain, "arm", broken_once)
    job = await shop.enqueue(delay=timedelta(seconds=1))
    async with shop.working(handlers):
        assert await all_done_once(shop, [job], ran)
    assert begun_again(caplog, "dispatcher")


async def test_finisher_that_fails_before_it_has_written(
    shop: Shop, handlers: Handlers, ran: Counter[JobId], caplog: pytest.LogCaptureFixture
) -> None:
    shop.stores.step_in("finish", raising(INJECTED))
    async with shop.working(handlers):
        assert await all_done_once(shop, await shop.enqueue_many(50), ran)
    assert begun_again(caplog, "finisher")


async def test_finisher_that_fails_after_it_has_written(
    shop: Shop, handlers: Handlers, ran: Counter[JobId], caplog: pytest.LogCaptureFixture
) -> None:
    """The second finish is refused, and the worker knows why: nobody took its jobs away."""
    lost = False

    def reply_lost(finish: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            nonlocal lost
            answer = await finish(*arguments)
            if not lost:
                lost = True
                raise INJECTED
            return answer

        return verb

    shop.stores.step_in("finish", reply_lost)
    async with shop.working(handlers) as worker:
        jobs = await shop.enqueue_many(50)
        assert await all_done_once(shop, jobs, ran)
        await shop.at_rest(worker)
    assert begun_again(caplog, "finisher")
    assert "lost its lease" not in caplog.text
    assert [await shop.statuses(job) for job in jobs] == [[SUCCEEDED]] * 50


async def test_log_writer(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Lines that could not be written go into the next batch, which does not wait for another line."""
    go_on = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        job.log("said once")
        await go_on.wait()

    shop.stores.step_in("append_log", raising(INJECTED))
    async with shop.working(only(report)):
        job = await shop.enqueue()

        async def readable() -> bool:
            return bool(await shop.lines(job))

        await eventually(readable, what="the line of a running job")
        go_on.set()
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == ["said once"]
    assert begun_again(caplog, "log writer")


async def test_burial(shop: Shop, handlers: Handlers, ran: Counter[JobId], caplog: pytest.LogCaptureFixture) -> None:
    job = await shop.enqueue()
    registration = await shop.store.join(
        Subscription(("report",), (ACME,)), WorkerFacts("dead", 1), timedelta(seconds=1)
    )
    await shop.store.claim(registration, 1)
    shop.stores.step_in("evict", raising(INJECTED))
    async with shop.working(handlers, leases=SHORT):
        assert await all_done_once(shop, [job], ran)
    assert begun_again(caplog, "reclaimer")
    assert await shop.statuses(job) == [CRASHED, SUCCEEDED]


async def test_pruning(shop: Shop, handlers: Handlers, caplog: pytest.LogCaptureFixture) -> None:
    shop.stores.step_in("prune", raising(INJECTED))
    async with shop.working(handlers, prune_every=timedelta(milliseconds=20)):

        async def twice() -> bool:
            return shop.stores.calls["prune"] >= 2

        await eventually(twice, what="another pruning")
    assert begun_again(caplog, "pruning")


# The heartbeat


async def test_heartbeat(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The job takes longer than the lease, and keeps it: the heartbeat went on."""
    beats = asyncio.Event()

    async def report(job: Job, payload: Payload) -> int:
        await beats.wait()
        return job.attempt

    shop.stores.step_in("renew", raising(INJECTED))
    async with shop.working(only(report), leases=SHORT):
        job = await shop.enqueue()

        async def enough() -> bool:
            return shop.stores.calls["renew"] >= 6

        await eventually(enough, what="heartbeats over more than a lease")
        beats.set()
        assert (await shop.ended(job)).result == 1
    assert begun_again(caplog, "heartbeat")


async def test_a_heartbeat_that_fails_now_and_then_is_always_begun_again(
    shop: Shop, handlers: Handlers, ran: Counter[JobId]
) -> None:
    """Only failures in a row, without a beat between them, mean that it can't go on."""
    calls = 0

    def every_other(renew: Verb) -> Verb:
        async def verb(*arguments: Any, **asks: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise INJECTED
            return await renew(*arguments, **asks)

        return verb

    shop.stores.step_in("renew", every_other)
    async with shop.working(handlers, leases=SHORT):

        async def many() -> bool:
            return calls >= 8

        await eventually(many, what="four failures of the heartbeat")
        assert await all_done_once(shop, await shop.enqueue_many(5), ran)


async def test_a_heartbeat_that_never_renews_ends_the_worker(shop: Shop) -> None:
    began = asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await asyncio.Event().wait()

    def broken_once_a_job_runs(renew: Verb) -> Verb:
        async def verb(*arguments: Any, **asks: Any) -> Any:
            if began.is_set():
                raise INJECTED
            return await renew(*arguments, **asks)

        return verb

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    shop.stores.step_in("renew", broken_once_a_job_runs)
    with pytest.raises(RuntimeError, match="injected"):
        await asyncio.wait_for(
            Worker(shop.stores, handlers, replace(SETTINGS, leases=SHORT)).run(), 2 * PATIENCE.total_seconds()
        )
    record = await shop.job(job)
    assert (record.status, record.free_attempts) == (Status.QUEUED, 1)
    assert await shop.statuses(job) == [GIVEN_BACK]
    assert await shop.store.workers() == []


async def test_a_process_whose_heartbeat_can_never_renew_ends_with_an_error(shop: Shop, processes: Processes) -> None:
    process = processes.python(str(Path(__file__).parent / "no_heartbeat.py"))
    assert await process.code() == 1
    assert "the worker can't go on" in process.said
    assert "the heart is broken" in process.said
    assert await shop.store.workers() == []

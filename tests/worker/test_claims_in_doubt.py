"""Claims that a worker does not know: their answer was lost or came late. It asks, and gives them back at no cost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from tests.conftest import PATIENCE, eventually
from tests.postgres.race_tools import GATED_CLOCK, Gate
from tests.postgres_parts import StoreInParts
from tests.proxy import Proxy
from tests.worker.far_worker import Seen, asleep, at_work, ended, enqueue
from tests.worker.shop import SHORT, Payload, Shop, Verb, only, raising, session_of

from leasehold import faults
from leasehold.errors import Unreachable
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import TenantJobs
from leasehold.worker import Job, Worker

ARRIVE_LATE = """
    update leasehold.jobs
    set status = 'running', ready = false, attempt = attempt + 1, worker_id = $1, claim_batch = 0,
        started_at = leasehold.clock()
    where id = $2
"""

GIVEN_BACK, SUCCEEDED = AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED


async def arrives_late(shop: Shop, worker: Worker) -> JobId:
    """A job that the worker's claim took long after the worker had given that claim up."""
    (job,) = await shop.enqueue_many(1, delay=PATIENCE * 100)
    await shop.observer.execute(ARRIVE_LATE, worker.state().worker, job)
    return job


async def test_a_claim_that_arrives_late_is_given_back_and_run(shop: Shop) -> None:
    async def handler(job: Job, payload: dict[str, Any]) -> str:
        return "done"

    async with shop.working(only(handler), leases=SHORT) as worker:
        await shop.at_rest(worker)
        record = await shop.ended(await arrives_late(shop, worker))
    assert (record.status, record.attempt, record.free_attempts) == (Status.SUCCEEDED, 2, 1)


async def test_a_worker_without_room_gives_a_late_claim_back_too(shop: Shop) -> None:
    """Other workers may have room. The job that it runs, for as long as the other one waited, is left alone."""
    began, may_end = asyncio.Event(), asyncio.Event()

    async def handler(job: Job, payload: dict[str, Any]) -> str:
        began.set()
        await may_end.wait()
        return "done"

    async with shop.working(only(handler), leases=SHORT, slots=1) as worker:
        busy = await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await began.wait()
        late = await arrives_late(shop, worker)
        await shop.waits_again(late)
        may_end.set()
        record = await shop.ended(busy)
    assert (record.attempt, record.result) == (1, "done")


class LostReply:
    """The first claim that finds something is committed; then its connection breaks, and nobody hears of it."""

    def __init__(self) -> None:
        self.lost: list[JobId] = []

    async def is_lost(self) -> bool:
        return bool(self.lost)

    def __call__(self, claim: Verb) -> Verb:
        store = claim.__self__  # type: ignore[attr-defined]
        assert isinstance(store, StoreInParts)

        async def verb(*arguments: Any) -> Any:
            claimed = await claim(*arguments)
            if self.lost or not claimed.claims:
                return claimed
            self.lost = [claim.job for claim in claimed.claims]
            async with store.links.claim.session() as session:
                session.terminate()
            raise Unreachable("the connection broke before the reply came", fix="")

        return verb


@pytest.mark.parametrize("dispatchers", [1, 4])
async def test_jobs_of_a_claim_with_a_lost_answer_are_given_back(shop: Shop, dispatchers: int) -> None:
    """No other worker could do it: the registration lives on, and so does its lease on jobs that do not run.

    The test waits for the first claim before it waits for ends: that marks a row, which a claim would pass over.
    """
    ran: Counter[JobId] = Counter()

    async def report(job: Job, payload: Payload) -> None:
        ran[job.id] += 1

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    jobs = await shop.enqueue_many(20)
    reply = LostReply()
    shop.stores.step_in("claim", reply)
    async with shop.working(handlers, slots=5, dispatchers=dispatchers):
        await eventually(reply.is_lost, what="the first claim")
        assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}
    assert ran == dict.fromkeys(jobs, 1)
    assert len(reply.lost) == 5
    for job in jobs:
        assert await shop.statuses(job) == ([GIVEN_BACK, SUCCEEDED] if job in reply.lost else [SUCCEEDED])
    steps = [name for name in shop.stores.statements if name in ("fleet/claim_next_tenants", "fleet/held")]
    assert steps[:2] == ["fleet/claim_next_tenants", "fleet/held"]


async def test_a_look_for_strays_that_fails_is_taken_again(shop: Shop) -> None:
    """A claim may be written a lease after its connection broke, and the database be away when that is looked for."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Payload) -> None:
        began.set()
        await go_on.wait()

    shop.stores.step_in("held", raising(Unreachable("away", fix="")))
    async with shop.working(only(report), slots=1) as worker:
        await shop.enqueue()
        await began.wait()
        stray = await shop.enqueue()
        assert (await shop.store.claim(session_of(worker).calls.registration, 1)).claims
        session_of(worker).ledger.expect_strays()
        go_on.set()
        await shop.ended(stray)
    assert await shop.statuses(stray) == [GIVEN_BACK, SUCCEEDED]


async def test_a_worker_stopped_during_a_claim_gives_its_jobs_back(shop: Shop) -> None:
    claimed, never = asyncio.Event(), asyncio.Event()

    def stuck(claim: Verb) -> Verb:
        async def verb(*arguments: Any) -> Any:
            answer = await claim(*arguments)
            if answer.claims:
                claimed.set()
                await never.wait()
            return answer

        return verb

    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    shop.stores.step_in("claim", stuck)
    async with shop.working(handlers):
        await asyncio.wait_for(claimed.wait(), 30)
    record = await shop.job(job)
    assert (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)
    assert await shop.store.workers() == []


async def test_a_claim_whose_reply_was_lost_is_given_back_at_no_cost(
    acme: TenantJobs, database_url: str, seen: Seen
) -> None:
    async with at_work(database_url, seen) as worker:
        await worker.joined.wait()
        faults.arm("after_claim:raise")
        (record,) = await ended(acme, [await enqueue(acme)])
    with suppress(faults.InjectedFault):
        faults.reach("after_claim")
        assert (record.status, record.tries) == (Status.SUCCEEDED, 1)
        assert seen.started == [record.id]
        return
    pytest.fail("the fault point was never reached")


async def test_a_claim_committed_after_its_connection_broke_is_found(
    acme: TenantJobs, proxy: Proxy, seen: Seen, database_url: str, ask: Callable[..., Awaitable[Any]]
) -> None:
    """The server is still at it when the worker, connected again, asks for its claims. No other worker would ask."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(GATED_CLOCK)
        gate = Gate(connection)
        async with at_work(proxy.url, seen, lease=SHORT.busy):
            await asleep(ask)
            await gate.close("fleet/claim_few")
            job = await enqueue(acme)
            await gate.holds(1)
            proxy.cut()
            await gate.holds(2)
            await gate.open()
            (record,) = await ended(acme, [job])
    finally:
        await connection.close()
    assert (record.status, record.tries) == (Status.SUCCEEDED, 1)

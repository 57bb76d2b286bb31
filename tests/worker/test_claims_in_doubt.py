"""A claim that its worker does not know, because it arrived very late, is given back at a heartbeat."""

import asyncio
from typing import Any

from tests.conftest import PATIENCE
from tests.worker.shop import SHORT, Shop, only

from leasehold.model.job import JobId
from leasehold.model.status import Status
from leasehold.worker import Job, Worker

ARRIVE_LATE = """
    update leasehold.jobs
    set status = 'running', ready = false, attempt = attempt + 1, worker_id = $1, claim_batch = 0,
        started_at = leasehold.clock()
    where id = $2
"""


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

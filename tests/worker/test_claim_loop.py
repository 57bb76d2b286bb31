"""Between jobs that come one after the other a worker does not go to sleep: each of them would have to wake it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.worker.shop import Shop, only

from leasehold.model.job import JobId
from leasehold.model.status import Status
from leasehold.worker import Job, claim_loop


async def report(job: Job, payload: dict[str, Any]) -> None: ...


async def succeeds(shop: Shop, job: JobId) -> None:
    """Only read: who waits for a result marks the job's row, and a claim that meets it then passes over it."""

    async def has_succeeded() -> bool:
        return (await shop.job(job)).status is Status.SUCCEEDED

    await eventually(has_succeeded, what=f"the success of {job}")


async def test_a_job_that_comes_just_after_another_finds_the_worker_awake(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lingers for as long as the test wants it to, so that "just after" does not depend on time."""
    lingers, goes_on, sleep = asyncio.Event(), asyncio.Semaphore(0), asyncio.sleep

    async def until_told(seconds: float) -> None:
        if seconds == claim_loop.LINGER:
            lingers.set()
            await goes_on.acquire()
        else:
            await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", until_told)
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        await succeeds(shop, await shop.enqueue())
        await asyncio.wait_for(lingers.wait(), PATIENCE.total_seconds())
        shop.doors.statements.clear()
        second = await shop.enqueue()
        goes_on.release()
        await succeeds(shop, second)
        statements = list(shop.doors.statements)
    assert statements.count("fleet/claim_few") == 1
    assert statements.count("fleet/sleep") == 0


async def test_who_lingered_in_vain_sleeps_and_is_woken(shop: Shop) -> None:
    """The fallback is an hour away, so that only a wake can bring the second job."""
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers, fallback=timedelta(hours=1)) as worker:
        await shop.ended(await shop.enqueue())
        await shop.at_rest(worker)
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED

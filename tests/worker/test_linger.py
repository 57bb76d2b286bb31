"""Between jobs that come one after the other a worker does not go to sleep: each of them would have to wake it."""

from datetime import timedelta
from typing import Any

import pytest
from tests.worker.shop import Shop, only

from leasehold.model.status import Status
from leasehold.worker import Job, tenure


async def report(job: Job, payload: dict[str, Any]) -> None: ...


async def test_a_job_that_comes_just_after_another_finds_the_worker_awake(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure, "LINGER", 2.0)
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers) as worker:
        await shop.at_rest(worker)
        shop.doors.statements.clear()
        first = await shop.ended(await shop.enqueue())
        second = await shop.ended(await shop.enqueue())
        statements = list(shop.doors.statements)
    assert (first.status, second.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert statements.count("fleet/sleep") == 0


async def test_who_lingered_in_vain_sleeps_and_is_woken(shop: Shop) -> None:
    """The fallback is an hour away, so that only a wake can bring the second job."""
    handlers = only(report)
    await shop.store.sync_definitions(handlers.definitions)
    async with shop.working(handlers, fallback=timedelta(hours=1)) as worker:
        await shop.ended(await shop.enqueue())
        await shop.at_rest(worker)
        assert (await shop.ended(await shop.enqueue())).status is Status.SUCCEEDED

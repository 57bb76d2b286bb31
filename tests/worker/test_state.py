"""A worker's state: a snapshot of its registration and its claims."""

import asyncio
from typing import Any

from tests.conftest import PATIENCE, eventually
from tests.worker.shop import Shop, only

from leasehold.worker import Job, Worker, WorkerState
from leasehold.worker.claims import ClaimState


async def test_a_worker_without_a_registration_has_an_empty_state(shop: Shop) -> None:
    async def report(job: Job, payload: Any) -> None: ...

    assert Worker(shop.stores, only(report)).state() == WorkerState()


async def test_a_running_job_is_in_the_state_until_it_has_ended(shop: Shop) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def report(job: Job, payload: Any) -> None:
        began.set()
        await may_end.wait()

    async with shop.working(only(report)) as worker:
        await shop.at_rest(worker)
        assert (worker.state().at_rest, worker.state().listens, worker.state().claims) == (True, True, {})
        job = await shop.enqueue()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await began.wait()
        state = worker.state()
        assert [(claim.job, where) for claim, where in state.claims.items()] == [(job, ClaimState.RUNNING)]
        assert not state.at_rest
        may_end.set()
        await shop.ended(job)

        async def has_no_claims() -> bool:
            return not worker.state().claims

        await eventually(has_no_claims, what="the end of the claim")

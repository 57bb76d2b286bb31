"""What was claimed and is not made ready yet: the worker holds it, whatever happens next."""

import asyncio
from typing import Any

import pytest
from tests.conftest import eventually
from tests.worker.shop import Shop, only

from leasehold.errors import SeatLost
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Job, Worker
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.tenure import Tenure

SNOOZED, SUCCEEDED = AttemptStatus.SNOOZED, AttemptStatus.SUCCEEDED


async def report(job: Job, payload: Any) -> str:
    return "ran"


@pytest.fixture
def no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(tenure: Tenure) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Tenure, "_start_on", never)


async def claimed(shop: Shop, worker: Worker) -> tuple[JobId, Tenure]:
    """A job that the worker has claimed, and the tenure that holds it."""
    job = await shop.enqueue()

    async def holds_it() -> bool:
        return worker.running == 1

    await eventually(holds_it, what="a claim")
    assert worker._tenure is not None
    return job, worker._tenure


@pytest.mark.usefixtures("no_starter")
async def test_when_the_worker_stops_it_is_given_back_at_no_cost(shop: Shop) -> None:
    async with shop.working(only(report)) as worker:
        job, _ = await claimed(shop, worker)
    record = await shop.job(job)
    assert (record.status, record.attempt, record.forgiven) == (Status.QUEUED, 1, 1)
    assert await shop.history(job) == [SNOOZED]


@pytest.mark.usefixtures("no_starter")
async def test_when_the_seat_is_lost_it_is_forgotten(shop: Shop) -> None:
    async with shop.working(only(report)) as worker:
        job, tenure = await claimed(shop, worker)
        tenure._end(SeatLost("it was evicted.", fix="Join again."))
        assert tenure.held == 0
    assert SUCCEEDED not in await shop.history(job)


@pytest.mark.usefixtures("no_starter")
async def test_who_asks_the_store_what_it_holds_does_not_take_it_for_a_stray(shop: Shop) -> None:
    async with shop.working(only(report)) as worker:
        job, tenure = await claimed(shop, worker)
        tenure._look_for_strays()
        await shop.ended(job)
    assert await shop.history(job) == [SUCCEEDED]


async def test_one_that_can_not_be_started_is_given_back_and_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_next, failures = Tenure._start_next, [MemoryError()]

    def fail_once(tenure: Tenure) -> None:
        if failures:
            tenure._to_start.popleft()
            raise failures.pop()
        start_next(tenure)

    monkeypatch.setattr(Tenure, "_start_next", fail_once)
    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert await shop.history(job) == [SNOOZED, SUCCEEDED]


async def test_the_heartbeat_that_the_first_job_after_a_rest_calls_for_knows_of_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would take the lease of an idle worker, thrice as long, and so would be missed thrice as late."""
    known: list[list[str]] = []
    monkeypatch.setattr(
        Heartbeat, "hurry_after_a_rest", lambda beat: known.append([claim.job for claim in beat._held()])
    )
    async with shop.working(only(report)):
        job = await shop.enqueue()
        await shop.ended(job)
    assert known == [[job]]

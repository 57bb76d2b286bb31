"""Exactly one effect for each job, whatever happens to the processes that bring it about.

These are real worker processes, stopped or killed at fault points that a job's payload names.
"""

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT, SIGKILL

import pytest
from tests.conftest import eventually
from tests.worker.shop import Process, Processes, Shop

from leasehold.model.definition import Definition
from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status

APP = Path(__file__).parent / "effects_app.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc")


@pytest.fixture(autouse=True)
async def prepared(shop: Shop) -> None:
    await shop.observer.execute("create table public.effects (job text not null, attempt text not null)")
    await shop.store.sync_definitions([Definition("write"), Definition("follow_up")])


def start(processes: Processes) -> Process:
    return processes.worker("--lease", "1s", "--slots", "4", handlers=APP)


async def effects_of(shop: Shop, job: JobId) -> list[str]:
    return [row[0] for row in await shop.observer.fetch("select attempt from public.effects where job = $1", job)]


async def follow_ups_of(shop: Shop, job: JobId) -> int:
    return int(
        await shop.observer.fetchval(
            "select count(*) from leasehold.job_records where definition = 'follow_up' and payload ->> 'of' = $1", job
        )
    )


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def stops_itself(process: Process) -> None:
    async def stopped() -> bool:
        return state_of(process.pid) == "T"

    await eventually(stopped, what=f"the stop of {process.pid}, which said:\n{process.said}\nThis")


LONGER = pytest.mark.faults
POINTS = [
    "before_commit",
    pytest.param("after_the_effect", marks=LONGER),
    pytest.param("before_finish_within", marks=LONGER),
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_paused_past_its_lease_rolls_its_writes_back(
    shop: Shop, processes: Processes, point: str
) -> None:
    """Stopped before its commit it holds the job's row, for as long as the server lets it idle: ten seconds."""
    job = await shop.enqueue("write", payload={"faults": {"1": f"{point}:stop"}})
    stale = start(processes)
    await stops_itself(stale)
    start(processes)
    record = await shop.ended(job)
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 2, 2)

    stale.send(SIGCONT)
    await stale.says("Joining again")
    another = await shop.enqueue("write", payload={"faults": {}})
    await shop.ended(another)
    assert await effects_of(shop, job) == ["2"]
    assert await follow_ups_of(shop, job) == 1
    assert await shop.job(job) == record
    assert await shop.statuses(job) == [AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED]


async def test_a_worker_killed_between_effect_and_commit_has_done_nothing(shop: Shop, processes: Processes) -> None:
    job = await shop.enqueue("write", payload={"faults": {"1": "before_commit:stop"}})
    killed = start(processes)
    await stops_itself(killed)
    assert await effects_of(shop, job) == []
    killed.send(SIGKILL)
    start(processes)
    record = await shop.ended(job)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 2)
    assert await effects_of(shop, job) == ["2"]


async def test_a_worker_killed_after_its_commit_has_done_everything(shop: Shop, processes: Processes) -> None:
    job = await shop.enqueue("write", payload={"faults": {"1": "after_commit:exit"}})
    killed = start(processes)
    record = await shop.ended(job)
    assert await killed.code() == 9
    start(processes)
    another = await shop.enqueue("write", payload={"faults": {}})
    await shop.ended(another)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)
    assert await shop.job(job) == record
    assert await effects_of(shop, job) == ["1"]


@pytest.mark.faults
async def test_many_crashes_leave_one_effect_and_one_follow_up_each(shop: Shop, processes: Processes) -> None:
    points = ["after_the_effect", "before_finish_within", "before_commit", "after_commit"]
    deadly = [{"1": f"{first}:exit", "2": f"{second}:exit"} for first, second in pairwise(points)]
    payloads = [{"faults": deadly[number // 8] if number % 8 == 0 else {}} for number in range(24)]
    jobs = [await shop.enqueue("write", payload=payload) for payload in payloads]
    workers = [start(processes) for _ in range(2)]
    crashes = 0

    async def all_have_ended() -> bool:
        nonlocal crashes
        for place, worker in enumerate(workers):
            if worker.ended:
                crashes += 1
                workers[place] = start(processes)
        await asyncio.sleep(0.05)
        return not await shop.observer.fetchval("select count(*) from leasehold.jobs where definition = 'write'")

    await eventually(all_have_ended, what="the end of all jobs")
    assert crashes >= 3
    for job in jobs:
        record = await shop.job(job)
        assert record.status is Status.SUCCEEDED
        assert await effects_of(shop, job) == [str(record.attempt)], job
        assert record.result == record.attempt
        assert await follow_ups_of(shop, job) == 1

"""A worker that was stopped past its lease, and does not know it: wherever it goes on, it has no say any more.

These are real processes, stopped by SIGSTOP at a fault point. While one stands still, another gets its job and runs
it; then the first goes on, and whatever it does must change nothing.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import eventually
from tests.faults.chaos.history import Entry, Event
from tests.faults.chaos.processes import WorkerProcess, ended_afterwards
from tests.faults.chaos.program import FRAGILE, WORK, Setup
from tests.tenant_kit import ACME

from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Store, TenantJobs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc")

Start = Callable[..., WorkerProcess]


@pytest.fixture
async def acme(store: Store) -> TenantJobs:
    await store.sync_definitions([WORK, FRAGILE])
    return store.tenant(ACME)


@pytest.fixture
def start(database_url: str, tmp_path: Path, acme: TenantJobs) -> Iterator[Start]:
    """Starts a worker process, with a fault point that strikes once. It is gone when the test is."""
    with ended_afterwards() as processes:

        def started(name: str, fault: str = "", slots: int = 8, lease: float = 1.0) -> WorkerProcess:
            setup = Setup(database_url, str(tmp_path / "history"), name, lease, slots, fallback=3600)
            processes.append(WorkerProcess(setup, fault))
            return processes[-1]

        yield started


async def enqueue(acme: TenantJobs, definition: str = "work", **payload: object) -> JobId:
    (placed,) = await acme.enqueue([NewJob(definition=definition, payload=payload)])
    return placed.id


async def the_job(acme: TenantJobs, job: JobId) -> JobRecord:
    record = await acme.get(job)
    assert record is not None
    return record


async def ends(acme: TenantJobs, job: JobId) -> JobRecord:
    async def ended() -> bool:
        return (await the_job(acme, job)).status.final

    await eventually(ended, what=f"the end of {job}")
    return await the_job(acme, job)


def accepted(*workers: WorkerProcess) -> list[Entry]:
    """The finishes that workers were told are written."""
    return [entry for worker in workers for entry in worker.entries(Event.FINISHED) if entry.status == "succeeded"]


@pytest.mark.parametrize(
    "point", ["after_claim", "before_run", "in_run", "before_say", "before_heartbeat", "before_finish"]
)
async def test_a_worker_paused_past_its_lease_changes_nothing(
    point: str, acme: TenantJobs, start: Start, tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    # The first heartbeat comes before the first claim: that point is armed by the handler.
    in_handler, fault = ("before_heartbeat:stop", "") if point == "before_heartbeat" else ("", f"{point}:stop")
    seconds = 30 if point == "before_heartbeat" else 0
    job = await enqueue(acme, says=["a word"], faults=in_handler, seconds=seconds, until=str(go_on))

    first = start("first", fault)
    await first.stops_itself()
    second = start("second", lease=3)
    await second.wrote(Event.STARTED)
    reclaimed = await the_job(acme, job)
    assert (reclaimed.status, reclaimed.attempt) == (Status.RUNNING, 2)

    first.resume()
    await first.wrote(Event.JOINED, times=2)
    now = await the_job(acme, job)
    assert replace(now, lease_expires_at=None) == replace(reclaimed, lease_expires_at=None)
    assert accepted(first) == []
    if point == "before_finish":
        await first.wrote(Event.REFUSED)

    go_on.touch()
    record = await ends(acme, job)
    await second.wrote(Event.FINISHED)
    assert (record.status, record.attempt, record.worker) == (Status.SUCCEEDED, 2, reclaimed.worker)
    assert record.result == {"attempt": 2, "worker": reclaimed.worker}
    assert [entry.fence for entry in accepted(first, second)] == [(job, 2, reclaimed.worker)]
    crashed, succeeded = await acme.attempts(job)
    assert (crashed.status, succeeded.status) == (AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED)
    assert crashed.finished_at is not None
    for line in await acme.lines(job, 1):
        assert line.at is not None
        assert line.at <= crashed.finished_at, "the stale worker was heard after its job had been given away"
    assert [line.text for line in await acme.lines(job, 2)] == ["a word"]


async def test_of_two_that_finish_late_the_one_with_the_last_attempt_counts(acme: TenantJobs, start: Start) -> None:
    """Both stand before their finish: the first past its lease, the second within its own."""
    job = await enqueue(acme)
    first = start("first", "before_finish:stop")
    await first.stops_itself()
    second = start("second", "before_finish:stop", lease=5)
    await second.stops_itself()
    first.resume()
    await first.wrote(Event.REFUSED)
    second.resume()
    await second.wrote(Event.FINISHED)
    record = await ends(acme, job)
    assert (record.attempt, record.result["attempt"]) == (2, 2)
    assert [entry.attempt for entry in accepted(first, second)] == [2]


async def test_one_that_stopped_after_its_finish_is_not_run_again(
    acme: TenantJobs, start: Start, store: Store
) -> None:
    job = await enqueue(acme)
    first = start("first", "after_finish:stop")
    await first.stops_itself()
    second = start("second")

    async def only_the_second_has_a_registration() -> bool:
        return [worker.facts.pid for worker in await store.workers()] == [second.pid]

    await eventually(only_the_second_has_a_registration, what="the first one's eviction")
    another = await enqueue(acme)
    await ends(acme, another)
    first.resume()
    await first.wrote(Event.JOINED, times=2)
    record = await the_job(acme, job)
    assert (record.status, record.attempt) == (Status.SUCCEEDED, 1)
    assert {entry.job for entry in second.entries(Event.STARTED)} == {another}


async def test_a_job_that_kills_its_workers_ends_with_its_last_attempt(acme: TenantJobs, start: Start) -> None:
    job = await enqueue(acme, definition="fragile")
    killed = [start(name, "in_run:exit") for name in ("first", "second")]

    async def both_are_dead() -> bool:
        return not any(process.lives() for process in killed)

    await eventually(both_are_dead, what="two dead workers")
    survivor = start("survivor")
    record = await ends(acme, job)
    assert (record.status, record.attempt, record.last_error_code) == (Status.DEAD_LETTER, 2, "lease_lost")
    assert survivor.entries(Event.STARTED) == []
    assert [attempt.status for attempt in await acme.attempts(job)] == [AttemptStatus.CRASHED] * 2


async def test_what_a_killed_worker_ran_is_finished_by_the_others_once(acme: TenantJobs, start: Start) -> None:
    """Two jobs it holds for sure, and it may be claiming, running or finishing others. The living keep theirs."""
    held = [await enqueue(acme, seconds=60) for _ in range(2)]
    first = start("first", slots=4, lease=2)
    await first.wrote(Event.STARTED, times=2)
    others = [start(name, slots=4, lease=6) for name in ("second", "third")]
    for other in others:
        await other.wrote(Event.JOINED)
    short = [NewJob(definition="work", payload={"seconds": 0.05 * (number % 5)}) for number in range(88)]
    jobs = held + [placed.id for placed in await acme.enqueue(short)]

    async def many_have_ended() -> bool:
        return len(accepted(first, *others)) >= 20

    await eventually(many_have_ended, what="the end of some of the jobs")
    first.kill()
    jobs += [await enqueue(acme, seconds=5) for _ in range(4)]  # still running when its lease ends
    records = [await ends(acme, job) for job in jobs]
    assert {record.status for record in records} == {Status.SUCCEEDED}
    assert all(record.result["attempt"] == record.attempt for record in records)
    told = [entry.fence for entry in accepted(first, *others)]
    assert len(told) == len(set(told)), "a finish was accepted twice"
    kept = {(record.id, record.attempt, record.worker) for record in records}
    assert set(told) <= kept, "a finish was accepted and not kept"
    crashed = [
        (job, attempt.worker)
        for job in jobs
        for attempt in await acme.attempts(job)
        if attempt.status is AttemptStatus.CRASHED
    ]
    assert {job for job, _ in crashed} >= set(held)
    registrations = {entry.worker for entry in first.entries(Event.JOINED)}
    assert {worker for _, worker in crashed} <= registrations, "a living worker's job was taken from it"

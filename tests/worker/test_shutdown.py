"""How worker processes end: SIGTERM drains, a second one does not wait, and nobody is left behind."""

import os
import signal
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.conftest import eventually
from tests.worker import chores
from tests.worker.shop import Process, Processes, Shop

from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Worker, process

SNOOZED, SUCCEEDED = AttemptStatus.SNOOZED, AttemptStatus.SUCCEEDED
LONG, SHORT = ("--grace", "20s"), ("--grace", "300ms")


@pytest.fixture(autouse=True)
async def definitions(shop: Shop) -> None:
    await shop.store.sync_definitions(chores.handlers.definitions)


async def busy_worker(shop: Shop, processes: Processes, *options: str, kind: str = "wait") -> tuple[Process, JobId]:
    """A worker with one slot, the job that it runs, and nothing else to do."""
    job = await shop.enqueue(kind, payload=processes.payload)
    worker = processes.worker("--slots", "1", *options)
    await processes.noted("began")
    return worker, job


async def joined(shop: Shop, count: int) -> list[int]:
    """The ids of the worker processes, once so many have joined."""

    async def enough() -> bool:
        return len(await shop.store.workers()) >= count

    await eventually(enough, what=f"{count} workers")
    return [worker.facts.pid for worker in await shop.store.workers()]


async def given_back(shop: Shop, job: JobId) -> bool:
    """It waits as if nothing had been, and its attempt cost nothing."""
    record = await shop.job(job)
    return (record.status, record.attempt, record.forgiven) == (Status.QUEUED, 1, 1)


async def test_sigterm_lets_a_running_job_end(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *LONG)
    worker.send(signal.SIGTERM)
    processes.go()
    assert await worker.code() == 0
    assert await shop.history(job) == [SUCCEEDED]
    assert (await shop.job(job)).status is Status.SUCCEEDED


async def test_an_idle_worker_ends_with_0_and_leaves_its_seat(shop: Shop, processes: Processes) -> None:
    worker = processes.worker()
    await joined(shop, 1)
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await shop.store.workers() == []


async def test_sigterm_stops_the_claiming(shop: Shop, processes: Processes) -> None:
    """The job that comes while it drains is still there when it has ended."""
    worker, job = await busy_worker(shop, processes, *LONG)
    worker.send(signal.SIGTERM)
    later = await shop.enqueue("note", payload=processes.payload)
    processes.go()
    assert await worker.code() == 0
    assert (await shop.job(job)).status is Status.SUCCEEDED
    assert (await shop.job(later)).status is Status.QUEUED
    assert processes.notes("did") == []


async def test_a_job_that_is_still_running_after_the_grace_is_given_back_at_no_cost(
    shop: Shop, processes: Processes
) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT)
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await given_back(shop, job)
    assert await shop.history(job) == [SNOOZED]
    assert await shop.store.workers() == []


async def test_what_was_given_back_is_done_by_the_next_worker(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT)
    worker.send(signal.SIGTERM)
    await worker.code()
    processes.go()
    processes.worker()
    await shop.ended(job)
    assert await shop.history(job) == [SNOOZED, SUCCEEDED]


async def test_a_thread_that_outlives_the_grace_does_not_keep_the_process_alive(
    shop: Shop, processes: Processes
) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT, kind="hang_in_thread")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await given_back(shop, job)


async def test_a_second_signal_ends_the_grace(shop: Shop, processes: Processes) -> None:
    """The grace is longer than the test's patience. What comes within a second of the first is no second one."""
    worker, job = await busy_worker(shop, processes, "--grace", "1h")
    worker.send(signal.SIGTERM)

    async def ended() -> bool:
        worker.send(signal.SIGTERM)
        return worker.ended

    await eventually(ended, what="an end without waiting for the grace")
    assert await worker.code() == 0
    assert await given_back(shop, job)


def test_only_what_comes_a_second_after_a_signal_is_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group gets it twice, once from its parent; how far apart the two come is nobody's choice."""
    worker, moments = Mock(spec=Worker), iter([100.0, 100.0, 100.1, 100.9, 101.5, 101.5])
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    stop, stops = process._Stop(worker), list[int]()
    for _ in range(4):
        stop.told()
        stops.append(worker.stop.call_count)
    assert stops == [1, 1, 1, 2]


# Several processes


async def test_a_signal_to_the_whole_group_is_one_signal(shop: Shop, processes: Processes) -> None:
    """Ctrl-C and systemd signal parent and children, and the parent passes it on to the children once more."""
    parent, job = await busy_worker(shop, processes, *LONG, "--processes", "2")
    await joined(shop, 2)
    parent.send_to_group(signal.SIGINT)

    async def only_the_busy_one_is_left() -> bool:
        return len(parent.children()) <= 1

    await eventually(only_the_busy_one_is_left, what="the end of the idle one")
    processes.go()
    assert await parent.code() == 0
    assert await shop.history(job) == [SUCCEEDED]


async def test_the_parent_passes_a_signal_on_and_ends_when_its_children_have(
    shop: Shop, processes: Processes
) -> None:
    jobs = await shop.enqueue_many(2, "wait", payload=processes.payload)
    parent = processes.worker("--processes", "2", "--slots", "1", *LONG)
    assert len({note.pid for note in await processes.noted("began", 2)}) == 2
    parent.send(signal.SIGTERM)
    processes.go()
    assert await parent.code() == 0
    assert [(await shop.job(job)).status for job in jobs] == [Status.SUCCEEDED] * 2
    assert parent.family() == []


async def test_the_parent_begins_a_killed_child_again(shop: Shop, processes: Processes) -> None:
    jobs = await shop.enqueue_many(2, "wait", payload=processes.payload)
    parent = processes.worker("--processes", "2", "--slots", "1", "--lease", "3s")
    killed, other = {note.pid for note in await processes.noted("began", 2)}
    os.kill(killed, signal.SIGKILL)
    third = (await processes.noted("began", 3))[-1]
    assert third.pid not in (killed, other)
    assert killed not in parent.family()
    processes.go()
    assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}


async def test_a_parent_that_is_stopped_while_it_begins_its_children_leaves_none_behind(
    processes: Processes,
) -> None:
    parent = processes.worker("--processes", "3")

    async def first_child() -> bool:
        return bool(parent.children())

    await eventually(first_child, what="a child")
    parent.send(signal.SIGTERM)
    assert await parent.code() == 0
    assert parent.family() == []


async def test_the_parent_says_so_when_a_child_ends_badly(shop: Shop, processes: Processes) -> None:
    """While it stops, too: a child that was killed is not one that drained."""
    parent = processes.worker("--processes", "2")
    doomed, other = await joined(shop, 2)
    os.kill(doomed, signal.SIGSTOP)
    parent.send(signal.SIGTERM)

    async def the_other_ended() -> bool:
        return other not in parent.family()

    await eventually(the_other_ended, what="the end of the other child")
    os.kill(doomed, signal.SIGKILL)
    assert await parent.code() == 1

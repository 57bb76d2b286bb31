"""How worker processes end: SIGTERM drains, a second one does not wait, and no process is left behind."""

import os
import signal
from pathlib import Path

import pytest
from tests.conftest import eventually
from tests.worker import sample_handlers
from tests.worker.shop import SAMPLE_HANDLERS, Process, Processes, Shop

from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus, Status

GIVEN_BACK, SUCCEEDED = AttemptStatus.GIVEN_BACK, AttemptStatus.SUCCEEDED
# One stuck handler is too many for a worker with one slot, and a coroutine has a moment to end after its cancel.
NONE_MAY_BE_STUCK = """
from leasehold.cli import main
from leasehold.worker import attempt, worker
attempt.MARGIN, worker.MOST_STUCK = 0.05, -1
main()
"""
LONG, SHORT = ("--grace", "20s"), ("--grace", "300ms")


@pytest.fixture(autouse=True)
async def definitions(shop: Shop) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)


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
    return (record.status, record.attempt, record.free_attempts) == (Status.QUEUED, 1, 1)


async def test_sigterm_lets_a_running_job_end(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *LONG)
    worker.send(signal.SIGTERM)
    processes.go()
    assert await worker.code() == 0
    assert await shop.statuses(job) == [SUCCEEDED]
    assert (await shop.job(job)).status is Status.SUCCEEDED


async def test_a_worker_tells_that_it_drains_while_its_job_ends(shop: Shop, processes: Processes) -> None:
    worker, _ = await busy_worker(shop, processes, *LONG)
    (record,) = await shop.store.workers()
    assert record.drains_since is None
    worker.send(signal.SIGTERM)

    async def drains() -> bool:
        return any(each.drains_since is not None for each in await shop.store.workers())

    await eventually(drains, what="a worker that drains")
    processes.go()
    assert await worker.code() == 0


async def test_an_idle_worker_ends_with_0_and_leaves_its_registration(shop: Shop, processes: Processes) -> None:
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


async def test_a_job_that_runs_past_the_grace_is_given_back_at_no_cost(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT)
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await given_back(shop, job)
    assert await shop.statuses(job) == [GIVEN_BACK]
    assert await shop.store.workers() == []


async def test_what_was_given_back_is_done_by_the_next_worker(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT)
    worker.send(signal.SIGTERM)
    await worker.code()
    processes.go()
    processes.worker()
    await shop.ended(job)
    assert await shop.statuses(job) == [GIVEN_BACK, SUCCEEDED]


async def test_a_thread_past_the_grace_lets_the_process_end(shop: Shop, processes: Processes) -> None:
    worker, job = await busy_worker(shop, processes, *SHORT, kind="hang_in_thread")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await given_back(shop, job)


async def test_a_second_signal_ends_the_grace(shop: Shop, processes: Processes) -> None:
    """The grace is longer than the test's patience. A signal within a second of the first is the same one."""
    worker, job = await busy_worker(shop, processes, "--grace", "1h")
    worker.send(signal.SIGTERM)

    async def ended() -> bool:
        worker.send(signal.SIGTERM)
        return worker.ended

    await eventually(ended, what="an end without waiting for the grace")
    assert await worker.code() == 0
    assert await given_back(shop, job)


# Handlers that can't be stopped

HURRIED = """
from leasehold.runtime import process
from leasehold.worker import attempt
from tests.worker.sample_handlers import app

attempt.MARGIN, process.FORCED_END = 0.1, {forced_end}
"""


def hurried(processes: Processes, forced_end: float = 20.0) -> Path:
    """The sample_handlers, in a worker that has less patience than usual."""
    file = processes.folder / "hurried.py"
    file.write_text(HURRIED.format(forced_end=forced_end))
    return file


async def test_a_coroutine_that_swallows_its_cancel_lets_the_process_end(shop: Shop, processes: Processes) -> None:
    """The worker was alive 78 s after SIGTERM, with a grace of 2 s."""
    job = await shop.enqueue("swallow_cancel", payload=processes.payload)
    worker = processes.worker("--slots", "1", *SHORT, handlers=hurried(processes))
    await processes.noted("began")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    assert await given_back(shop, job)
    assert await shop.store.workers() == []
    assert "these handlers still run in its process: swallow_cancel (1)" in worker.said


async def test_a_handler_that_blocks_the_loop_does_not_keep_the_process(shop: Shop, processes: Processes) -> None:
    await shop.enqueue("block_loop", payload=processes.payload)
    worker = processes.worker(*SHORT, handlers=hurried(processes, forced_end=0.5))
    await processes.noted("began")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 1
    assert "the worker process ends by force" in worker.said


async def test_a_third_signal_ends_the_process_at_once(shop: Shop, processes: Processes) -> None:
    worker, _ = await busy_worker(shop, processes, "--grace", "1h", kind="block_loop")

    async def ended() -> bool:
        worker.send(signal.SIGTERM)
        return worker.ended

    await eventually(ended, what="an end by force")
    assert await worker.code() == 1
    assert "a third signal came" in worker.said


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
    assert await shop.statuses(job) == [SUCCEEDED]


async def test_the_parent_passes_signals_on_and_ends_after_its_children(shop: Shop, processes: Processes) -> None:
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


async def test_a_parent_stopped_at_its_start_leaves_no_children(
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


async def test_children_drain_and_end_when_their_parent_was_killed(shop: Shop, processes: Processes) -> None:
    parent, job = await busy_worker(shop, processes, *LONG, "--processes", "2")
    await joined(shop, 2)
    parent.send(signal.SIGKILL)

    async def only_the_busy_one_is_left() -> bool:
        return len(parent.children()) <= 1

    await eventually(only_the_busy_one_is_left, what="the end of the idle child")
    processes.go()

    async def none_is_left() -> bool:
        return parent.family() == []

    await eventually(none_is_left, what="the end of the busy child")
    assert await shop.statuses(job) == [SUCCEEDED]
    assert await shop.store.workers() == []


# Copies that os.fork() makes


@pytest.mark.parametrize("kind", ["fork_in_thread", "fork_on_loop"])
async def test_a_forked_copy_that_leaves_its_handler_ends_there(shop: Shop, processes: Processes, kind: str) -> None:
    job = await shop.enqueue(kind, payload=processes.payload)
    worker = processes.worker()
    record = await shop.ended(job)
    assert (record.status, record.result) == (Status.SUCCEEDED, 1)
    assert (await shop.ended(await shop.enqueue("note", payload=processes.payload))).status is Status.SUCCEEDED
    assert worker.family() == [worker.pid]
    assert "has returned from the handler; it ends here" in worker.said


async def test_a_forked_copy_may_end_by_sys_exit(shop: Shop, processes: Processes) -> None:
    job = await shop.enqueue("fork_and_raise", payload=processes.payload)
    processes.worker()
    assert (await shop.ended(job)).result == 7


async def test_a_worker_process_with_too_many_stuck_handlers_ends_with_1(shop: Shop, processes: Processes) -> None:
    """So that a supervisor starts it again: only the end of the process frees their tasks."""
    job = await shop.enqueue("swallow_cancel", payload=processes.payload)
    worker = processes.python("-c", NONE_MAY_BE_STUCK, "worker", str(SAMPLE_HANDLERS), "--slots", "1")
    await processes.noted("began")
    await shop.jobs.cancel([job])
    assert await worker.code() == 1
    assert "still run although their attempts are over: swallow_cancel (1)" in worker.said
    assert "Traceback" not in worker.said
    assert (await shop.job(job)).status is Status.CANCELED
    assert await shop.store.workers() == []

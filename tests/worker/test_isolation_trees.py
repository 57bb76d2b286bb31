"""Whatever an isolated handler starts ends with its process, also if the worker is killed."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.commands.kit import folders
from tests.conftest import eventually
from tests.worker.isolated_kit import APP, Isolated, guard_of, is_alive, until_ended
from tests.worker.shop import Processes

from leasehold.commands.folders import remove_leftovers
from leasehold.model.status import Status

SOON = timedelta(seconds=2)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


async def begin_a_daemon(isolated: Isolated, then: str) -> tuple[Any, int, int]:
    """A job whose handler runs, its process, and a daemon that the handler has started."""
    job = await isolated.enqueue("leave_a_daemon", folder=str(isolated.folder), then=then)
    return job, await isolated.written("began"), await isolated.written("daemon")


@pytest.mark.parametrize("then", ["hang", "hold the interpreter"])
async def test_kill_9_of_the_worker_ends_the_whole_tree(isolated: Isolated, processes: Processes, then: str) -> None:
    worker = processes.worker("--lease", "5s", handlers=APP, TMPDIR=str(isolated.folder))
    await worker.says("slots for")
    _, pid, daemon = await begin_a_daemon(isolated, then)
    guard = guard_of(pid)
    worker.send(signal.SIGKILL)
    began = time.monotonic()
    for each in (pid, daemon, guard):
        await until_ended(each, timedelta(seconds=10))
    assert time.monotonic() - began < SOON.total_seconds()
    assert folders() == []


async def test_a_worker_removes_what_killed_guards_have_left(isolated: Isolated, processes: Processes) -> None:
    worker = processes.worker("--lease", "5s", handlers=APP, TMPDIR=str(isolated.folder))
    await worker.says("slots for")
    _, pid, daemon = await begin_a_daemon(isolated, "hang")
    guard = guard_of(pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # or the first one to go would see the end of the other
        os.kill(guard, number)
        worker.send(number)
    await until_ended(pid, SOON)
    assert is_alive(daemon)
    processes.worker(handlers=APP, TMPDIR=str(isolated.folder))
    await until_ended(daemon)


async def test_a_killed_guard_is_a_crash_that_leaves_nothing(isolated: Isolated) -> None:
    async with isolated.working() as (_, pool):
        job, pid, daemon = await begin_a_daemon(isolated, "hang")
        os.kill(guard_of(pid), signal.SIGKILL)
        record = await isolated.shop.waits_again(job)
        assert pool.pids == []
        assert not is_alive(daemon)
    assert record.last_error_code == "process_crashed"
    assert remove_leftovers() == 0


async def test_a_crash_ends_the_daemons_of_a_handler(isolated: Isolated) -> None:
    async with isolated.working():
        job, _, daemon = await begin_a_daemon(isolated, "crash")
        record = await isolated.shop.waits_again(job)
        assert not is_alive(daemon)
    assert "exit code 3" in (record.last_error or "")


async def test_a_cancel_ends_the_daemons_of_a_handler(isolated: Isolated) -> None:
    async with isolated.working():
        job, _, daemon = await begin_a_daemon(isolated, "hang")
        await isolated.shop.jobs.cancel([job])
        assert (await isolated.shop.ended(job)).status is Status.CANCELED
        assert not is_alive(daemon)


async def test_the_end_is_known_where_sigchld_is_ignored(isolated: Isolated) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with isolated.working():
            crashed = await isolated.shop.ended(await isolated.enqueue("crash", how="exit code 3"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert "ended with exit code 3" in (crashed.last_error or "")


async def test_a_worker_leaves_no_files_of_its_guards(isolated: Isolated) -> None:
    async with isolated.working():
        await isolated.shop.ended(await isolated.enqueue("tell"))
        assert len(folders()) == 1

    async def removed() -> bool:
        return folders() == []

    await eventually(removed, what="the end of the lock")

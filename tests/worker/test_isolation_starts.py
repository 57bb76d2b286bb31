"""Processes of isolated handlers: a job pays nothing for one that can't be started, and a worker bounds them."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.worker.isolated_app import app
from tests.worker.isolated_kit import Isolated, until_ended
from tests.worker.shop import Shop

from leasehold.app.processes import make_processes
from leasehold.model.isolation import Isolation
from leasehold.model.outcome import Outcome, Succeeded
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import WorkerSettings, isolated_process
from leasehold.worker import processes as processes_module
from leasehold.worker.handler_process import Connection, _Server
from leasehold.worker.isolated_process import HandlerProcess
from leasehold.worker.processes import HandlerProcesses


def make_pool(shop: Shop, slots: int = 1) -> HandlerProcesses:
    pool = make_processes(app, shop.url, WorkerSettings(slots=slots))
    assert pool is not None
    return pool


async def test_a_process_that_can_not_import_the_app_uses_no_try(shop: Shop, tmp_path: Path) -> None:
    pool = make_pool(shop)
    pool._plan = {**pool._plan, "target": str(tmp_path / "gone.py")}
    async with shop.working(app.handlers, processes=pool):
        job = await shop.enqueue("tell", payload={}, max_attempts=1)
        record = await shop.waits_again(job)
    assert record.tries == 0
    assert record.scheduled_for > record.queued_at
    first = (await shop.jobs.attempts(job))[0]
    assert first.status is AttemptStatus.SNOOZED
    line = (await shop.lines(job))[0]
    assert "could not be started" in line.text
    assert "gone.py does not exist" in line.text


def test_the_pause_after_a_failed_start_is_bounded(shop: Shop) -> None:
    pool = make_pool(shop)
    pauses = [pool.pause_after("no memory") for _ in range(20)]
    assert pauses[0] <= 1.5
    assert pauses[-1] >= 30
    assert max(pauses) <= 90


async def test_a_process_that_does_not_get_ready_is_given_up(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_process, "START_LIMIT", 0.01)
    async with isolated.working() as (_, pool):
        job = await isolated.shop.enqueue("tell", payload={}, max_attempts=1)
        await isolated.shop.waits_again(job)
        await asyncio.gather(*(until_ended(pid) for pid in pool.pids))
    assert "within 0.01 s" in (await isolated.shop.lines(job))[0].text


async def test_a_warm_process_that_was_killed_costs_no_try(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker can't know yet that the process is gone: it is stopped, then killed with the call in its socket."""
    run = HandlerProcess.run

    async def kill_and_run(process: HandlerProcess, *arguments: Any) -> Any:
        if process.pid == warm:
            os.kill(warm, signal.SIGKILL)
        return await run(process, *arguments)

    async with isolated.working():
        warm = (await isolated.shop.ended(await isolated.enqueue("tell"))).result["pid"]
        os.kill(warm, signal.SIGSTOP)
        monkeypatch.setattr(HandlerProcess, "run", kill_and_run)
        job = await isolated.shop.enqueue("tell", payload={}, max_attempts=1)
        record = await isolated.shop.ended(job)
    assert (record.status, record.tries) == (Status.SUCCEEDED, 1)
    assert record.result["pid"] != warm
    assert len(await isolated.shop.jobs.attempts(job)) == 1


async def test_a_process_that_can_not_read_its_messages_is_replaced(isolated: Isolated) -> None:
    async with isolated.working():
        deaf = (await isolated.shop.ended(await isolated.enqueue("lose_the_reader"))).result
        record = await isolated.shop.ended(await isolated.enqueue("tell"))
    assert (record.status, record.tries) == (Status.SUCCEEDED, 1)
    assert record.result["pid"] != deaf


async def test_a_cancel_beside_the_end_of_its_call_is_ignored() -> None:
    """The call may end between two looks of the thread that takes the cancel."""

    class Ending(_Server):
        looks = 0

        @property
        def _task(self) -> asyncio.Task[Outcome] | None:
            self.looks += 1
            return running if self.looks == 1 else None

        @_task.setter
        def _task(self, _: asyncio.Task[Outcome] | None) -> None: ...

    running = asyncio.create_task(_forever())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = Ending(Connection(theirs))
        server._loop, server._number = asyncio.get_running_loop(), 1
        server._take({"cancel": 1})
        with pytest.raises(asyncio.CancelledError):
            await running


async def _forever() -> Outcome:
    await asyncio.Event().wait()
    return Succeeded()


async def test_processes_that_all_end_before_a_call_use_no_try(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is stopped before its call, so that it can't read it before the guard has killed it."""

    async def kill_and_run(process: HandlerProcess, *arguments: Any) -> Any:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        process.kill()
        return await run(process, *arguments)

    run = HandlerProcess.run
    monkeypatch.setattr(HandlerProcess, "run", kill_and_run)
    async with shop.working(app.handlers, processes=make_pool(shop)):
        job = await shop.enqueue("tell", payload={}, max_attempts=1)
        record = await shop.waits_again(job)
    assert record.tries == 0


async def test_an_idle_process_that_does_not_end_is_killed(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_process, "CLOSE_LIMIT", 0.2)
    async with isolated.working(slots=1):
        hangs = (await isolated.shop.ended(await isolated.enqueue("never_close"))).result
        await isolated.shop.ended(await isolated.enqueue("allocate", megabytes=1))
        await until_ended(hangs, timedelta(seconds=5))


async def test_a_worker_has_no_more_processes_than_slots(isolated: Isolated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers with a memory limit have processes apart from the others: one of another kind ends first."""
    started: list[int] = []

    class Counted(HandlerProcess):
        def __init__(self, command: Sequence[str], isolation: Isolation) -> None:
            started.append(len(pool.pids))
            super().__init__(command, isolation)

    monkeypatch.setattr(processes_module, "HandlerProcess", Counted)
    async with isolated.working(slots=1) as (_, pool):
        for definition, payload in (("tell", {}), ("allocate", {"megabytes": 1})) * 2:
            await isolated.shop.ended(await isolated.enqueue(definition, **payload))
    assert started == [0, 0, 0, 0]


async def test_files_of_the_current_folder_replace_no_modules(
    isolated: Isolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "socket.py").write_text("raise RuntimeError('this is not the module of Python')")
    monkeypatch.chdir(tmp_path)
    async with isolated.working():
        record = await isolated.shop.ended(await isolated.enqueue("tell"))
    assert record.status is Status.SUCCEEDED

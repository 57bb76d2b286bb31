"""Handlers for worker processes of the tests. They write down what they did, for the test to read."""

import asyncio
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from leasehold import Leasehold
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.worker import Fail, Job

app = Leasehold()
handlers = app.handlers

SOON = Steps(0.05)


def write_down(what: str, job: Job, payload: dict[str, Any]) -> None:
    line = f"{what} {job.id} {job.attempt} {os.getpid()}\n"
    with (Path(payload["folder"]) / "notes").open("a") as notes:
        notes.write(line)  # one write, appended: lines of several processes don't mix


def may_go(payload: dict[str, Any]) -> bool:
    return (Path(payload["folder"]) / "go").exists()


@handlers.add(Definition("note", backoff=SOON))
async def note(job: Job, payload: dict[str, Any]) -> None:
    write_down("did", job, payload)


@handlers.add(Definition("wait", backoff=SOON))
async def wait(job: Job, payload: dict[str, Any]) -> None:
    write_down("began", job, payload)
    while not may_go(payload):  # noqa: ASYNC110 - the sign comes from another process
        await asyncio.sleep(0.02)
    write_down("ended", job, payload)


@handlers.add(Definition("hang_in_thread", backoff=SOON))
def hang_in_thread(job: Job, payload: dict[str, Any]) -> None:
    """Whatever happens, it goes on."""
    write_down("began", job, payload)
    while True:
        time.sleep(0.02)


@handlers.add(Definition("swallow_cancel", backoff=SOON))
async def swallow_cancel(job: Job, payload: dict[str, Any]) -> None:
    write_down("began", job, payload)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@handlers.add(Definition("block_loop", backoff=SOON))
async def block_loop(job: Job, payload: dict[str, Any]) -> None:
    write_down("began", job, payload)
    while True:
        time.sleep(0.02)  # noqa: ASYNC251 - it blocks on purpose


def fork(job: Job, payload: dict[str, Any]) -> int:
    """The child is let out of the handler, as by a handler that has forgotten os._exit."""
    write_down("began", job, payload)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        write_down("ended", job, payload)
        return os.waitstatus_to_exitcode(status)
    return -1


@handlers.add(Definition("fork_in_thread", max_attempts=1))
def fork_in_thread(job: Job, payload: dict[str, Any]) -> int:
    return fork(job, payload)


@handlers.add(Definition("fork_on_loop", max_attempts=1))
async def fork_on_loop(job: Job, payload: dict[str, Any]) -> int:
    code = fork(job, payload)
    await asyncio.sleep(0)
    return code


@handlers.add(Definition("fork_and_raise", max_attempts=1))
async def fork_and_raise(job: Job, payload: dict[str, Any]) -> int:
    code = fork(job, payload)
    if code == -1:
        raise SystemExit(7)
    return code


@handlers.add(Definition("fail", max_attempts=1))
async def fail(job: Job, payload: dict[str, Any]) -> None:
    raise Fail("broken on purpose")


@handlers.add(Definition("poison", backoff=SOON, max_attempts=3))
async def poison(job: Job, payload: dict[str, Any]) -> None:
    write_down("began", job, payload)
    os._exit(9)


@handlers.add(Definition("poison_in_thread", backoff=SOON, max_attempts=3))
def poison_in_thread(job: Job, payload: dict[str, Any]) -> None:
    write_down("began", job, payload)
    assert threading.current_thread() is not threading.main_thread()
    os._exit(9)

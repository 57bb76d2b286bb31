"""What worker processes of the tests do. Chores write down what they did, for the test that started them to read."""

import asyncio
import os
import threading
import time
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

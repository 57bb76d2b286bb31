"""A handler can use its app in a worker process as in any other."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import PATIENCE, eventually

from leasehold import Leasehold

APP = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
async def first(job: Job) -> str:
    acme = app.tenant(job.tenant)
    assert (await acme.jobs.aget(job.id)).status == "running"
    assert [worker.running for worker in await app.store.workers()] == [1]
    return (await acme.aenqueue(second)).id


@app.job
def second(job: Job) -> None: ...
"""


@pytest.fixture
def worker(database_url: str, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "app.py").write_text(APP)
    process = subprocess.Popen(
        [sys.executable, "-c", "from leasehold.cli import main; main()", "worker", "app.py"],
        cwd=tmp_path,
        env=os.environ | {"LEASEHOLD_URL": database_url},
        stderr=subprocess.DEVNULL,
    )
    yield
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


@pytest.mark.usefixtures("worker")
async def test_in_a_worker_process_the_app_is_open_for_its_handlers(app: Leasehold) -> None:
    async with app.open():
        acme = app.tenant("acme")

        async def works() -> bool:
            return len(await app.store.workers()) == 1

        await eventually(works, what="the worker")
        placed = await acme.aenqueue_key("first", {})
        ended = await acme.jobs.await_until_final(placed.id, PATIENCE)
        assert ended is not None
        assert ended.last_error is None
        assert (await acme.jobs.await_until_final(ended.result, PATIENCE)) is not None

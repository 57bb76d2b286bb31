"""`leasehold dev` as a process, its app, and what it told."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import PATIENCE, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import Process

from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.store import Store, TenantJobs

APP = """
import asyncio, os
from pathlib import Path
from leasehold import Job, Leasehold, Steps

app = Leasehold()

@app.job(backoff=Steps(0.05))
async def report(job: Job, number: int = 0) -> str:
    job.log(f"number {number}")
    return "first"

@app.job(backoff=Steps(0.05))
async def wait(job: Job) -> None:
    while not Path("go").exists():
        await asyncio.sleep(0.02)

@app.job(backoff=Steps(0.05))
async def die(job: Job) -> None:
    os._exit(9)
"""
NO_JOBS = "from leasehold import Leasehold\napp = Leasehold()\n"
Start = Callable[..., "Dev"]
MAIN = "from leasehold.cli import main; main()"


class Dev(Process):
    """`leasehold dev app.py` in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        *options: str,
        prelude: str = "",
        started_by: tuple[str, ...] = (),
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        program = f"import os; os.chdir({str(folder)!r}); {prelude}{MAIN}"
        super().__init__(
            [*started_by, sys.executable, "-c", program, "dev", "app.py", *options],
            kept | environment,
            folder / "log",
        )

    @property
    def news(self) -> list[dict[str, Any]]:
        lines = self.said.splitlines(keepends=True)
        return [orjson.loads(line) for line in lines if line.startswith('{"') and line.endswith("}\n")]

    def told(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        return [each for each in self.news if each.items() >= {"event": event, **fields}.items()]

    async def tells(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first of these, once it is told."""

        async def told() -> bool:
            assert not self.ended or self.told(event, **fields), f"it ended, and said: {self.said}"
            return bool(self.told(event, **fields))

        await eventually(told, 2 * PATIENCE, what=f"{event} {fields}")
        return self.told(event, **fields)[0]

    async def is_ready(self) -> None:
        await self.tells("dev.message", topic="watching")

    async def stop(self) -> None:
        self.send_to_group(signal.SIGINT)
        assert await self.code() == 0, self.said


@pytest.fixture
async def started(tmp_path: Path, database_url: str) -> AsyncIterator[Start]:
    """Starts it on this test's database. A process that it leaves behind fails the test."""
    (tmp_path / "app.py").write_text(APP)
    running: list[Dev] = []

    def start(*options: str, **how: Any) -> Dev:
        running.append(Dev(tmp_path, {"LEASEHOLD_URL": database_url}, *options, **how))
        return running[-1]

    yield start
    left = [pid for dev in running for pid in await dev.clear_up()]
    assert left == [], f"processes were left behind: {left}"


@pytest.fixture
def acme(store: Store) -> TenantJobs:
    return store.tenant(ACME)


async def enqueue(acme: TenantJobs, definition: str = "report", **fields: Any) -> JobId:
    (placed,) = await acme.enqueue([NewJob(definition=definition, **fields)])
    return placed.id


async def ends(acme: TenantJobs, job: JobId) -> JobRecord:
    record = await acme.wait_until_final(job, PATIENCE)
    assert record is not None
    return record

"""The connections of processes are those that docs/how-to/production.md counts."""

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.conftest import Raw, eventually
from tests.deploy.test_programs import ROOT, Start, free_port, status_of
from tests.deploy.test_programs import start as start

from leasehold import Leasehold

PAGE = (ROOT / "docs/how-to/production.md").read_text()
COUNT = """
    select count(*) from pg_stat_activity
    where application_name = 'leasehold' and datname = current_database() and pid <> pg_backend_pid()
"""
SLOTS = 10
# Each handler enqueues and holds a transaction at the same time, until all slots do.
APP = """
import asyncio
from pathlib import Path
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
async def write(job: Job) -> None:
    async with job.transaction() as connection:
        await connection.execute("select 1")
        await asyncio.gather(*(app.tenant("acme").options(delay="1d").aenqueue(write) for _ in range(5)))
        while not Path("go").exists():
            await asyncio.sleep(0.05)
"""


def counted() -> Mapping[str, tuple[int, int]]:
    """Returns the numbers of the page: by process, while idle and at most."""
    rows = re.findall(r"^\| (worker|scheduler|API and console) \| (\d+) \| (\d+)", PAGE, re.MULTILINE)
    return {name: (int(idle), int(most)) for name, idle, most in rows}


async def connections(observer: Raw) -> int:
    return int(await observer.fetchval(COUNT))


@pytest.mark.parametrize(
    ("name", "words"),
    [("worker", ["worker", "app.py"]), ("scheduler", ["scheduler"])],
    ids=["worker", "scheduler"],
)
async def test_an_idle_service_has_few_connections(start: Start, observer: Raw, name: str, words: list[str]) -> None:
    port = free_port()
    process = start([*words, "--metrics-port", str(port)])

    async def is_ready() -> bool:
        assert not process.ended, process.said
        return status_of(f"http://127.0.0.1:{port}/ready") == 200

    await eventually(is_ready, what="readiness")
    idle, most = counted()[name]
    assert await connections(observer) <= idle <= most
    process.send(signal.SIGTERM)
    assert await process.code() == 0, process.said


async def test_an_idle_api_has_few_connections(start: Start, observer: Raw) -> None:
    port = free_port()
    start(["serve", "app.py", "--port", str(port)])

    async def is_ready() -> bool:
        return status_of(f"http://127.0.0.1:{port}/api/v1/ready") == 200

    await eventually(is_ready, what="readiness")
    idle, _ = counted()["API and console"]
    assert await connections(observer) <= idle


async def test_a_busy_worker_has_no_more_than_its_pool_and_its_transactions(
    start: Start, observer: Raw, database_url: str, tmp_path: Path
) -> None:
    process = start(["--version"])
    await process.code()
    (tmp_path / "app.py").write_text(APP)
    worker = start(["worker", "app.py", "--slots", str(SLOTS)])
    app = Leasehold(database_url)
    async with app.open():
        await worker.says("✓ worker")
        for _ in range(SLOTS):
            await app.tenant("acme").aenqueue_key("write", {})
    most, seen = counted()["worker"][1], 0

    async def all_run() -> bool:
        nonlocal seen
        assert not worker.ended, worker.said
        seen = max(seen, await connections(observer))
        running = await observer.fetchval("select count(*) from leasehold.jobs where status = 'running'")
        waiting = await observer.fetchval("select count(*) from leasehold.jobs where status = 'queued'")
        return bool(running == SLOTS and waiting == 5 * SLOTS)

    await eventually(all_run, what="transactions in all slots")
    assert counted()["worker"][0] + SLOTS <= seen <= most + SLOTS
    (tmp_path / "go").touch()
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0, worker.said

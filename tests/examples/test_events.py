"""The example with events: each of them makes its job, and the schedule fires at its hour."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.conftest import eventually
from tests.worker.shop import Process

FOLDER = Path(__file__).parents[2] / "examples/events"
COMMAND = ["-c", "from leasehold.cli import main; main()"]
EMITTED = """\
provider.folder.updated → sync-dropbox
provider.connection.changed → warn_owner
list.created → build_index
images.ingest.completed → build_index
"""


class Example:
    def __init__(self, url: str, logs: Path) -> None:
        self._url, self._logs = url, logs
        self.started: list[Process] = []

    def run(self, *arguments: str) -> Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        log = self._logs / f"process-{len(self.started)}.log"
        process = Process([sys.executable, *arguments], {**kept, "LEASEHOLD_URL": self._url}, log, folder=FOLDER)
        self.started.append(process)
        return process

    async def must(self, *arguments: str) -> str:
        process = self.run(*arguments)
        assert await process.code() == 0, process.said
        return process.said

    async def document(self, *words: str) -> Any:
        said = await self.must(*COMMAND, *words, "--json")
        return json.loads(next(line for line in said.splitlines() if line.startswith(("[", "{"))))

    async def jobs(self) -> list[tuple[str, Any, str]]:
        connection = await asyncpg.connect(self._url)
        try:
            found = await connection.fetch("select definition, payload, status from leasehold.job_records")
            return sorted((row["definition"], row["payload"], row["status"]) for row in found)
        finally:
            await connection.close()


@pytest.fixture
async def example(tmp_path: Path, database_url: str) -> AsyncIterator[Example]:
    example = Example(database_url, tmp_path)
    yield example
    for process in example.started:
        await process.clear_up()


async def test_the_events_of_the_example_make_jobs_that_run(example: Example) -> None:
    assert await example.must("app.py", "acme") == EMITTED
    worker = example.run(*COMMAND, "worker", "app.py")

    async def done() -> bool:
        return [status for *_, status in await example.jobs()] == ["succeeded"] * 4

    await eventually(done, what=f"the jobs ({worker.said})")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0


async def test_another_tenant_has_its_own_triggers(example: Example) -> None:
    said = await example.must("app.py", "other")
    assert said == EMITTED.replace("sync-dropbox", "no job")


async def test_a_connection_that_is_restored_makes_no_job(example: Example) -> None:
    await example.must("app.py", "acme")
    data = ("--tenant", "acme", "--data", '{"status": "restored"}')
    tested = await example.document("events", "test", "provider.connection.changed", *data)
    assert {each["definition"]: each["result"] for each in tested} == {
        "sync-dropbox": "no match",
        "warn_owner": "no match",
        "build_index": "no match",
    }


async def test_the_schedule_of_the_example_is_saved_with_its_payload(example: Example) -> None:
    await example.must("app.py", "acme")
    saved = await example.document("triggers", "show", "Nightly provider sync")
    assert saved["schedule"] == {"cron": "0 2 * * *", "zone": "America/New_York"}
    assert saved["payload"].keys() == {"provider_id", "path_prefix"}
    shown = await example.document("triggers", "preview", "Nightly provider sync")
    assert [run["local"][11:16] for run in shown["runs"]] == ["02:00"] * 5

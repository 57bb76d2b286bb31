"""The example with events: each of them makes its job, and the schedule fires at its hour."""

import signal
from pathlib import Path
from typing import Any

import asyncpg
from tests.conftest import eventually
from tests.examples.conftest import Example

FOLDER = Path(__file__).parents[2] / "examples/events"
EMITTED = """\
provider.folder.updated → sync-dropbox
provider.connection.changed → warn_owner
list.created → build_index
images.ingest.completed → build_index
"""


async def jobs(url: str) -> list[tuple[str, Any, str]]:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch("select definition, payload, status from leasehold.job_records")
        return sorted((row["definition"], row["payload"], row["status"]) for row in found)
    finally:
        await connection.close()


async def test_the_events_of_the_example_make_jobs_that_run(example: Example, database_url: str) -> None:
    assert await example.must("app.py", "acme") == EMITTED
    worker = example.leasehold("worker", "app.py")

    async def done() -> bool:
        return [status for *_, status in await jobs(database_url)] == ["succeeded"] * 4

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

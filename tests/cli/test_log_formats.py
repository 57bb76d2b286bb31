"""`--log-format`: real processes, whose lines are read as a collector of logs reads them."""

import asyncio
import json
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import copy_cluster, eventually
from tests.tenant_kit import ACME
from tests.worker.shop import Process, Processes

from leasehold import embedded
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.model.job import JobId, NewJob
from leasehold.store import Store

OF_JOB = {"job_id", "tenant_id", "definition_key", "attempt_no", "worker_id"}
JOBS = """
import logging, time
import structlog
from leasehold import Job, Leasehold, Steps

app = Leasehold()
log = structlog.get_logger()

@app.job
async def sell(job: Job, item_id: str) -> None:
    logging.getLogger("shop").info("sold %s", item_id)
    log.info("sold_by_structlog", item=item_id, token="hunter2-secret")

@app.job
def thread(job: Job) -> None:
    logging.getLogger("shop").warning("in a thread", extra={"job_id": "my own"})

@app.job(isolation="process")
def process(job: Job) -> None:
    logging.getLogger("shop").warning("in a process")
    log.info("structlog_in_a_process")

@app.job(max_attempts=2, backoff=Steps(0))
async def fail(job: Job) -> None:
    raise ValueError("hunter2-secret is wrong")

@app.job
async def block(job: Job) -> None:
    time.sleep(1.5)
"""
SERVER = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


def lines(process: Process) -> list[dict[str, Any]]:
    """Its lines of JSON; other output, such as the line that the worker is ready, is left out."""
    return [json.loads(line) for line in process.said.splitlines() if line.startswith("{")]


async def line(process: Process, event: str, **fields: object) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def logged() -> bool:
        found[:] = [each for each in lines(process) if each["event"] == event and fields.items() <= each.items()]
        return bool(found)

    await eventually(logged, what=f"{event} in\n{process.said}")
    return found[0]


class Shop:
    def __init__(self, store: Store, processes: Processes, jobs: Path) -> None:
        self.store, self.processes, self.jobs = store, processes, jobs

    async def worker(self, *options: str, **settings: str) -> Process:
        started = self.processes.worker(*options, handlers=self.jobs, API_TOKEN="hunter2-secret", **settings)
        await started.says("✓ worker")
        return started

    async def enqueue(self, key: str, **payload: Any) -> JobId:
        (placed,) = await self.store.tenant(ACME).enqueue([NewJob(definition=key, payload=payload)])
        return placed.id


@pytest.fixture
async def shop(store: Store, database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    jobs = tmp_path / "jobs.py"
    jobs.write_text(JOBS)
    processes = Processes(database_url, tmp_path)
    yield Shop(store, processes, jobs)
    await processes.clear_up()


async def test_a_job_is_three_lines_with_the_fields_of_the_seeds(shop: Shop) -> None:
    worker = await shop.worker("--log-format", "json")
    job = await shop.enqueue("sell", item_id="i-7")
    completed = await line(worker, "job_completed", job_id=job)
    claimed = await line(worker, "job_claimed", job_id=job)
    for told in (claimed, completed):
        assert told.keys() >= OF_JOB
        assert (told["item_id"], told["attempt"], told["attempt_no"], told["level"]) == ("i-7", 1, 1, "info")
        assert (told["tenant_id"], told["definition_key"]) == (ACME, "sell")
    assert completed["duration_ms"] >= 0
    failed = await shop.enqueue("fail")
    first = await line(worker, "job_failed", job_id=failed, attempt_no=1)
    second = await line(worker, "job_failed", job_id=failed, attempt_no=2)
    assert (first["error_code"], first["will_retry"], first["level"]) == ("ValueError", True, "warning")
    assert (second["error_code"], second["will_retry"], second["level"]) == ("ValueError", False, "error")
    assert second["duration_ms"] >= 0
    assert "hunter2" not in worker.said
    assert len([each for each in lines(worker) if each.get("job_id") == failed]) == 4


async def test_lines_of_handlers_carry_the_job_wherever_they_run(shop: Shop) -> None:
    worker = await shop.worker("--log-format", "json")
    told: dict[str, JobId] = {
        "sold i-1": (job := await shop.enqueue("sell", item_id="i-1")),
        "sold_by_structlog": job,
        "in a process": (isolated := await shop.enqueue("process")),
        "structlog_in_a_process": isolated,
    }
    for event, job_id in told.items():
        logged = await line(worker, event, job_id=job_id)
        assert logged.keys() >= OF_JOB | {"level", "timestamp"}
        assert (logged["tenant_id"], logged["attempt_no"]) == (ACME, 1)
    assert (await line(worker, "sold_by_structlog"))["token"] != "hunter2-secret"
    assert "hunter2" not in worker.said


async def test_a_field_of_the_handlers_own_line_wins(shop: Shop) -> None:
    worker = await shop.worker("--log-format", "json")
    await shop.enqueue("thread")
    logged = await line(worker, "in a thread")
    assert (logged["job_id"], logged["definition_key"]) == ("my own", "thread")


async def test_text_has_the_same_lines_for_people(shop: Shop) -> None:
    worker = await shop.worker(LEASEHOLD_LOG_FORMAT="text")
    job = await shop.enqueue("sell", item_id="i-1")
    await worker.says("job_completed")
    (completed,) = [each for each in worker.said.splitlines() if "job_completed" in each]
    assert f"job_id={job}" in completed
    assert "duration_ms=" in completed
    (own,) = [each for each in worker.said.splitlines() if "sold i-1" in each]
    assert f"job_id={job}" in own


async def test_plain_lines_of_handlers_carry_the_job_too_and_successes_are_silent(shop: Shop) -> None:
    worker = await shop.worker()
    job = await shop.enqueue("sell", item_id="i-1")
    await worker.says("sold i-1")
    (own,) = [each for each in worker.said.splitlines() if "INFO sold i-1" in each]
    assert f"job_id={job} tenant_id={ACME} definition_key=sell attempt_no=1 worker_id=" in own
    failed = await shop.enqueue("fail")
    await worker.says("not tried again")
    assert str(failed) in worker.said
    assert "job_completed" not in worker.said


async def test_a_handler_that_blocks_the_loop_is_named(shop: Shop) -> None:
    worker = await shop.worker("--log-format", "json")
    job = await shop.enqueue("block")
    blocked = await line(worker, "loop_blocked")
    assert (blocked["definitions"], blocked["jobs"], blocked["level"]) == (["block"], [job], "warning")
    assert blocked["where"].endswith("in block")


async def test_a_format_that_does_not_exist_is_a_message(shop: Shop) -> None:
    started = shop.processes.worker(handlers=shop.jobs, LEASEHOLD_LOG_FORMAT="xml")
    assert await started.code() == 2
    assert "LEASEHOLD_LOG_FORMAT: 'xml' is neither json nor text." in started.said


@pytest.mark.parametrize("service", ["worker", "scheduler"])
@pytest.mark.parametrize("format_", ["json", "text", "plain"])
async def test_a_database_that_goes_away_and_comes_back_is_two_lines(
    own_home: Path, tmp_path: Path, service: str, format_: str
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    words = ["worker", str(tmp_path / "jobs.py")] if service == "worker" else ["scheduler"]
    options = [] if format_ == "plain" else ["--log-format", format_]
    names = ("database is away", "database is back") if format_ == "plain" else ("database_lost", "database_back")
    lost, back = names
    home = own_home / "home"
    processes = Processes("", tmp_path)
    try:
        with embedded.postgres(home, settings=SERVER) as server:
            await migrate(server.url, schema="leasehold")
            program = ("-c", "from leasehold.cli import main; main()")
            settings = {"LEASEHOLD_URL": server.url, "LEASEHOLD_FALLBACK": "1s"}  # or a scheduler looks once a minute
            started = processes.python(*program, *words, *options, **settings)
            await started.says(f"✓ {service}")
            await _at_work(server.url, service)
            before = len(started.said)
        await started.says(lost)
        await asyncio.sleep(timedelta(seconds=6).total_seconds())  # long enough for twenty lines
        with embedded.postgres(home, settings=SERVER):
            await started.says(back)
            started.send(signal.SIGTERM)
            assert await started.code() == 0
    finally:
        await processes.clear_up()
    told = [each for each in started.said[before:].splitlines() if each and "worker_left" not in each]
    assert len(told) == 2, "\n".join(told)


@pytest.fixture
def own_home(new_cluster: Path) -> Iterator[Path]:
    """Not in pytest's folder, which is closed to the account that Postgres runs under when we are root."""
    folder = Path(tempfile.mkdtemp(prefix="outage-"))
    folder.chmod(0o755)
    (folder / "home").mkdir()
    copy_cluster(new_cluster, folder / "home")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def _at_work(url: str, service: str) -> None:
    """Waits until a worker has run a job: all its connections are open then."""
    if service == "scheduler":
        return
    store = await engine_for(url).open()
    try:
        (placed,) = await store.tenant(ACME).enqueue([NewJob(definition="sell", payload={"item_id": "1"})])
        await store.tenant(ACME).wait_until_final(placed.id, timedelta(seconds=30))
    finally:
        await store.close()

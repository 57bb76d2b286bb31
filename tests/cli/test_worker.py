"""`leasehold worker`: its messages at the start, and its events as JSON. tests/worker tests the rest."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from tests.cli.test_migrate import in_a_process
from tests.cli.test_processes import run
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.tenant_kit import ACME

from leasehold.model.job import NewJob, tenant_id
from leasehold.store import Store, Subscription

JOBS = """
import subprocess, time
from leasehold import Job, Leasehold

app, other = Leasehold(), Leasehold()
print("printed when imported")

@app.job
def talk(job: Job) -> None:
    print("printed by the handler")
    subprocess.run(["echo", "printed by its child"], check=True)
    job.log("said")

@app.job
async def hang(job: Job) -> None:
    time.sleep(3600)
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.py"
    file.write_text(JOBS)
    return file


def test_a_missing_schema_exits_with_6_and_says_what_to_do(database_url: str, jobs: Path) -> None:
    done = in_a_process("worker", f"{jobs}:app", "--schema", "absent", url=database_url)
    assert done.returncode == 6
    assert "Run: leasehold migrate" in done.stderr
    assert "Traceback" not in done.stderr


def test_of_several_apps_one_has_to_be_named(database_url: str, jobs: Path) -> None:
    done = in_a_process("worker", str(jobs), url=database_url)
    assert done.returncode == 2
    assert "holds several apps: app, other" in done.stderr


def test_a_file_that_is_not_there_is_a_message(database_url: str) -> None:
    done = in_a_process("worker", "no_such_file.py", url=database_url)
    assert done.returncode == 2
    assert "can't be imported" in done.stderr
    assert "Nothing was started" in done.stderr


def test_a_duration_that_can_not_be_read_is_a_message(database_url: str, jobs: Path) -> None:
    done = in_a_process("worker", f"{jobs}:app", "--lease", "soon", url=database_url)
    assert done.returncode == 2
    assert "is not a duration" in done.stderr


REFUSED = {
    "a typo": (["no_such_file.py"], 2, "LH-5001"),
    "a missing schema": (["jobs.py:app", "--schema", "absent"], 6, "LH-2001"),
    "no duration": (["jobs.py:app", "--lease", "soon"], 2, "LH-1000"),
    "no jobs": (["jobs.py:other"], 2, "LH-1000"),
    "an end when imported": (["ending.py"], 2, "LH-5001"),
    "a selection that matches nothing": (["jobs.py:app", "--only", "tlak"], 2, "LH-1000"),
    "an exclusion of everything": (["jobs.py:app", "--except", "*"], 2, "LH-1000"),
    "no tenant": (["jobs.py:app", "--tenants", ","], 2, "LH-1000"),
    "no URL": (["jobs.py:app", "--url", "postgresql://localhost:abc/db"], 2, "LH-1000"),
}


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(("words", "code", "error"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_start_ends_at_once_and_tells_machines_why(
    database_url: str, jobs: Path, words: list[str], code: int, error: str, processes: str
) -> None:
    (jobs.parent / "ending.py").write_text("raise SystemExit")
    done = run("worker", *words, "--json", "--processes", processes, url=database_url, folder=jobs.parent)
    assert done.returncode == code, done.stderr
    assert orjson.loads(done.stdout)["error"]["code"] == error
    assert error in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_is_ready_when_it_has_reached_the_database(database_url: str, jobs: Path) -> None:
    async with Proxy(database_url).open() as proxy:
        proxy.refuse()
        with working(jobs, LEASEHOLD_URL=proxy.url) as process:
            log = jobs.parent / "log"

            async def waits() -> bool:
                return "the database is away" in log.read_text()

            async def is_ready() -> bool:
                return "✓ worker    10 slots for talk, hang" in log.read_text()

            await eventually(waits, what="a worker that waits for the database")
            assert "✓" not in log.read_text()
            proxy.heal()
            await eventually(is_ready, what="a worker that is ready")
            assert "the database is back" in log.read_text()
            process.terminate()
            assert await asyncio.to_thread(process.wait) == 0


def test_the_nearest_name_of_a_selection_is_told(database_url: str, jobs: Path) -> None:
    done = in_a_process("worker", f"{jobs}:app", "--only", "tlak", url=database_url)
    assert 'no definition matches "tlak". Did you mean "talk"?' in " ".join(done.stderr.split())


async def test_a_worker_says_what_it_was_told_to_run(store: Store, database_url: str, jobs: Path) -> None:
    options = ("--only", "t*,hang", "--except", "hang", "--tenants", "acme,globex", "--tenants", "initech")
    with working(jobs, "--json", *options, LEASEHOLD_URL=database_url) as process:
        told(process, until="worker.joined")
        (listed,) = await store.workers()
        process.terminate()
    assert listed.serves == Subscription(("talk",), (ACME, tenant_id("globex"), tenant_id("initech")))


# As JSON


@contextmanager
def working(jobs: Path, *options: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker of ours, with its stdin and stdout in our hands."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    command = [sys.executable, "-c", "from leasehold.cli import main; main()", "worker", f"{jobs}:app", *options]
    with (
        (jobs.parent / "log").open("wb") as log,
        subprocess.Popen(
            command, env=kept | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def told(process: "subprocess.Popen[bytes]", until: str) -> list[str]:
    """The names of its events up to this one; any other text on its stdout is not JSON and fails."""
    assert process.stdout is not None
    events: list[str] = []
    for line in process.stdout:
        events.append(orjson.loads(line)["event"])
        if events[-1] == until:
            return events
    pytest.fail(f"{until} was not told, only {events}")


async def test_events_have_stdout_for_themselves(store: Store, database_url: str, jobs: Path) -> None:
    with working(jobs, "--json", LEASEHOLD_URL=database_url) as process:
        told(process, until="worker.joined")
        await store.tenant(ACME).enqueue([NewJob(definition="talk")])
        assert told(process, until="job.ended") == ["job.started", "job.logged", "job.ended"]
        process.send_signal(signal.SIGTERM)
        assert told(process, until="worker.left") == ["worker.left"]
        assert process.wait() == 0
    log = (jobs.parent / "log").read_text()
    for who in ("when imported", "by the handler", "by its child"):
        assert f"printed {who}" in log


def test_the_events_of_several_processes_share_a_stdout(database_url: str, jobs: Path) -> None:
    with working(jobs, "--json", "--processes=2", "--until-stdin-ends", LEASEHOLD_URL=database_url) as process:
        for event in ("worker.joined", "worker.joined"):
            told(process, until=event)
        process.send_signal(signal.SIGTERM)
        assert told(process, until="worker.left") + told(process, until="worker.left") == 2 * ["worker.left"]
        assert process.wait() == 0


def test_an_embedded_postgres_is_migrated_before_it_works(jobs: Path, tmp_path: Path) -> None:
    with working(jobs, "--json", LEASEHOLD_HOME=str(tmp_path / "data")) as process:
        told(process, until="worker.joined")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


# Until stdin ends


def test_it_ends_in_good_order_when_its_stdin_does(database_url: str, jobs: Path) -> None:
    with working(jobs, "--json", "--until-stdin-ends", LEASEHOLD_URL=database_url) as process:
        told(process, until="worker.joined")
        assert process.stdin is not None
        process.stdin.close()
        assert told(process, until="worker.left") == ["worker.left"]
        assert process.wait() == 0


async def test_it_ends_with_its_stdin_even_if_a_handler_blocks_everything(
    store: Store, database_url: str, jobs: Path
) -> None:
    with working(jobs, "--json", "--until-stdin-ends", LEASEHOLD_URL=database_url) as process:
        told(process, until="worker.joined")
        await store.tenant(ACME).enqueue([NewJob(definition="hang")])
        told(process, until="job.started")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 1


def test_it_ends_with_its_stdin_before_it_has_begun(database_url: str, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck.py"
    stuck.write_text("print('begun')\nimport time; time.sleep(3600)")
    with working(stuck, "--until-stdin-ends", LEASEHOLD_URL=database_url) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == -signal.SIGTERM

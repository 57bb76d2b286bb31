"""LEASEHOLD_EMBEDDED=off, and the message of a worker on the embedded Postgres."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import Run

from leasehold import Job, Leasehold
from leasehold.errors import EmbeddedError
from leasehold.testing.server import databases

COMMAND = [sys.executable, "-c", "from leasehold.cli import main; main()"]
JOBS = """
from leasehold import Job, Leasehold

app = Leasehold()

@app.job
async def talk(job: Job) -> None: ...
"""
OFF = {"LEASEHOLD_EMBEDDED": "off"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")} | more


@pytest.mark.parametrize(
    "words",
    [
        "worker jobs.py",
        "dev jobs.py --no-reload",
        "tick jobs.py",
        "migrate",
        "doctor",
        "psql",
        "jobs",
        "enqueue talk --tenant acme",
        "definitions sync jobs.py",
    ],
)
def test_a_command_without_a_url_starts_no_embedded_postgres(folder: Path, words: str, run_forked: Run) -> None:
    done = run_forked(["leasehold", *words.split()], folder, environment(**OFF), 60)
    assert done.returncode == 7, done.stderr
    assert "LH-3010" in done.stderr
    assert "LEASEHOLD_URL is not set, and LEASEHOLD_EMBEDDED=off forbids the embedded Postgres." in done.stderr
    assert "Nothing was started" in done.stderr
    assert not (folder / ".leasehold").exists()


def test_an_app_without_a_url_starts_no_embedded_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_URL", raising=False)
    monkeypatch.setenv("LEASEHOLD_EMBEDDED", "off")
    app = Leasehold(home=tmp_path / "home")

    @app.job
    def talk(job: Job) -> None: ...

    with pytest.raises(EmbeddedError, match=r"LH-3010: LEASEHOLD_URL is not set, and LEASEHOLD_EMBEDDED=off"):
        app.tenant("acme").enqueue(talk)
    assert not (tmp_path / "home").exists()


def test_an_app_with_a_url_works_without_the_embedded_postgres(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_EMBEDDED", "off")
    app = Leasehold(database_url)

    @app.job
    def talk(job: Job) -> None: ...

    assert app.tenant("acme").enqueue(talk).created
    app.close()


def test_tests_start_no_embedded_postgres_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_TEST_URL", raising=False)
    monkeypatch.setenv("LEASEHOLD_EMBEDDED", "off")
    with (
        pytest.raises(EmbeddedError, match=r"LEASEHOLD_TEST_URL is not set, and LEASEHOLD_EMBEDDED=off"),
        databases(),
    ):
        pass


def test_a_worker_without_a_url_says_which_database_it_uses(prepared_home: Path) -> None:
    folder = prepared_home.parent
    (folder / "jobs.py").write_text(JOBS)
    worker = subprocess.Popen(
        [*COMMAND, "worker", "jobs.py"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stderr is not None
        said = next(line for line in worker.stderr if line.startswith("! database"))
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert said == (
        f"! database  LEASEHOLD_URL is not set: this worker runs the jobs of the embedded Postgres in "
        f"{prepared_home}, and no others. Set LEASEHOLD_URL or --url in production; "
        "LEASEHOLD_EMBEDDED=off refuses to start without.\n"
    )

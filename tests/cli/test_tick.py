"""`leasehold tick`: due work, once, from the command line."""

from pathlib import Path

import orjson
import pytest
from tests.cli.terminal import run

APP = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
def greet(job: Job, name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return str(file)


def test_a_tick_runs_what_is_due_and_prints_what_it_did(database_url: str, target: str) -> None:
    assert run(["definitions", "sync", target], LEASEHOLD_URL=database_url).code == 0
    for name in ("Ada", "Grace"):
        placed = run(["enqueue", "greet", f"name={name}", "--tenant", "acme"], LEASEHOLD_URL=database_url)
        assert placed.code == 0
    ticked = run(["tick", target, "--max-jobs", "5", "--max-seconds", "20", "--json"], LEASEHOLD_URL=database_url)
    assert ticked.code == 0
    assert orjson.loads(ticked.out) == {
        "ran": 2,
        "succeeded": 2,
        "failed": 0,
        "given_back": 0,
        "reclaimed": 0,
        "fired": 0,
        "more": False,
    }
    again = run(["tick", target], LEASEHOLD_URL=database_url)
    assert (again.code, again.out) == (0, "")
    assert "0 ran" in again.err


def test_a_tick_of_no_jobs_is_refused(database_url: str, target: str) -> None:
    assert run(["tick", target, "--max-jobs", "0"], LEASEHOLD_URL=database_url).code == 2


def test_a_tick_without_a_url_says_which_database_it_uses(target: str, tmp_path: Path) -> None:
    ticked = run(["tick", target], LEASEHOLD_HOME=str(tmp_path / "home"))
    assert ticked.code == 0, ticked.err
    assert f"an embedded Postgres in {tmp_path / 'home'}, for want of LEASEHOLD_URL" in ticked.err.replace("\n", "")


def test_a_tick_runs_the_selected_jobs_only(database_url: str, target: str) -> None:
    assert run(["definitions", "sync", target], LEASEHOLD_URL=database_url).code == 0
    for tenant in ("acme", "globex"):
        assert run(["enqueue", "greet", "name=Ada", "--tenant", tenant], LEASEHOLD_URL=database_url).code == 0
    ticked = run(["tick", target, "--only", "gr*", "--tenants", "acme", "--json"], LEASEHOLD_URL=database_url)
    assert orjson.loads(ticked.out)["ran"] == 1
    refused = run(["tick", target, "--only", "great"], LEASEHOLD_URL=database_url)
    assert refused.code == 2
    assert 'Did you mean "greet"?' in refused.err

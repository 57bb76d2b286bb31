"""`leasehold worker`, as far as it goes before it runs anything; what it then does is in tests/worker."""

from pathlib import Path

import pytest
from tests.cli.test_migrate import leasehold

JOBS = """
from leasehold.model.definition import Definition
from leasehold.worker import Handlers

handlers, others = Handlers(), Handlers()
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.py"
    file.write_text(JOBS)
    return file


def test_a_missing_schema_exits_with_6_and_says_what_to_do(database_url: str, jobs: Path) -> None:
    done = leasehold("worker", f"{jobs}:handlers", "--schema", "absent", url=database_url)
    assert done.returncode == 6
    assert "Run: leasehold migrate" in done.stderr
    assert "Traceback" not in done.stderr


def test_of_several_handlers_one_has_to_be_named(database_url: str, jobs: Path) -> None:
    done = leasehold("worker", str(jobs), url=database_url)
    assert done.returncode == 2
    assert "holds handlers, others" in done.stderr


def test_a_file_that_is_not_there_is_a_message(database_url: str) -> None:
    done = leasehold("worker", "no_such_file.py", url=database_url)
    assert done.returncode == 2
    assert "can't be loaded" in done.stderr
    assert "Nothing was started" in done.stderr


def test_a_duration_that_can_not_be_read_is_a_message(database_url: str, jobs: Path) -> None:
    done = leasehold("worker", f"{jobs}:handlers", "--lease", "soon", url=database_url)
    assert done.returncode == 2
    assert "is not a duration" in done.stderr

"""Targets: `file.py`, `package.module`, or either with `:name`."""

import queue
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import leasehold
from leasehold.cli.target import load_app, require_jobs
from leasehold.errors import CannotLoad, InvalidInput

ALONE = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
def report(job: Job) -> None: ...
"""
SHOP_APP = """
from leasehold import Leasehold

app = Leasehold()

from shop_under_test import tasks
"""
SHOP_TASKS = """
from leasehold import Job
from shop_under_test.app import app


@app.job
def ship(job: Job) -> None: ...
"""


@pytest.fixture(autouse=True)
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder; effects of importing are undone."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def shop(folder: Path) -> Path:
    written(folder / "shop_under_test/__init__.py", "")
    written(folder / "shop_under_test/tasks.py", SHOP_TASKS)
    return written(folder / "shop_under_test/app.py", SHOP_APP)


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    assert load_app(str(written(tmp_path / "alone.py", ALONE))).handlers.keys == ("report",)


def test_a_file_in_a_package_is_the_module_that_others_import(tmp_path: Path) -> None:
    shop(tmp_path)
    assert load_app("shop_under_test/app.py").handlers.keys == ("ship",)


def test_a_package_may_lie_in_a_package_and_elsewhere(tmp_path: Path) -> None:
    for package in ("outer_under_test", "outer_under_test/inner"):
        written(tmp_path / "elsewhere" / package / "__init__.py", "")
    file = written(
        tmp_path / "elsewhere/outer_under_test/inner/app.py", f"from . import __name__ as package\n{ALONE}"
    )
    assert load_app(str(file)).handlers.keys == ("report",)
    assert sys.modules["outer_under_test.inner.app"].package == "outer_under_test.inner"


def test_a_package_itself_can_hold_the_app(tmp_path: Path) -> None:
    assert load_app(str(written(tmp_path / "held_under_test/__init__.py", ALONE))).handlers.keys == ("report",)
    assert "held_under_test" in sys.modules


@pytest.mark.parametrize("name", ["queue", "leasehold"])
def test_a_file_with_the_name_of_a_module_does_not_take_its_place(tmp_path: Path, name: str) -> None:
    before = sys.modules[name]
    assert load_app(str(written(tmp_path / f"{name}.py", ALONE))).handlers.keys == ("report",)
    assert sys.modules[name] is before
    assert before in (queue, leasehold)


def test_a_package_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "leasehold/__init__.py", "")
    with pytest.raises(CannotLoad, match=r"leasehold\.app is another module already"):
        load_app(str(written(tmp_path / "leasehold/app.py", ALONE)))


@pytest.mark.parametrize(
    ("content", "code"), [("import sys; sys.exit()", "0"), ("raise SystemExit(3)", "3"), ("exit('no')", "'no'")]
)
def test_code_that_ends_the_process_when_imported_can_not_be_loaded(tmp_path: Path, content: str, code: str) -> None:
    with pytest.raises(CannotLoad, match=f"ended its process with {code} when it was imported. Nothing was started"):
        load_app(str(written(tmp_path / "ending.py", content)))


def test_an_app_without_jobs_has_nothing_to_run(tmp_path: Path) -> None:
    app = load_app(str(written(tmp_path / "empty.py", "from leasehold import Leasehold\napp = Leasehold()")))
    with pytest.raises(InvalidInput, match=r"empty\.py has no jobs.*Nothing was started.*@app\.job"):
        require_jobs(app, "empty.py")

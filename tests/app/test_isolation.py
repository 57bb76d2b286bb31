"""`@app.job(isolation="process")`: its options, and where a process finds the app."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from tests.app.helpers import ended
from tests.conftest import PATIENCE

from leasehold import InvalidInput, Job, Leasehold
from leasehold.app.target import target_of
from leasehold.model.isolation import Isolation

SCRIPT = """
import asyncio
import os
import sys

from leasehold import Job, Leasehold

app = Leasehold(sys.argv[1] if len(sys.argv) > 1 else None)


@app.job(isolation="process", max_attempts=1)
def tell(job: Job) -> int:
    return os.getpid()


async def main() -> None:
    async with app.open(worker=True):
        job = await app.tenant("acme").aenqueue(tell)
        try:
            print(await job.aresult(timeout=60) != os.getpid())
        except Exception as error:
            print(error)


"""


def run_script(folder: Path, code: str, url: str) -> str:
    (folder / "script.py").write_text(SCRIPT + code)
    done = subprocess.run(
        [sys.executable, "script.py", url],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE.total_seconds(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_runs_its_handlers_in_processes(database_url: str, tmp_path: Path) -> None:
    assert run_script(tmp_path, 'if __name__ == "__main__":\n    asyncio.run(main())\n', database_url) == "True\n"


def test_a_script_that_works_when_imported_is_told_why_it_fails(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + "asyncio.run(main())\n")
    script = subprocess.Popen(
        [sys.executable, "script.py", database_url], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert script.stderr is not None
        warning = next(line for line in script.stderr if "could not be started" in line)
        assert "if __name__ == '__main__'" in warning
    finally:
        script.terminate()
        script.communicate()


async def test_an_app_that_no_module_holds_can_not_be_isolated(app: Leasehold) -> None:
    @app.job(isolation="process")
    def tell(job: Job) -> None: ...

    with pytest.raises(InvalidInput, match="no module holds the app"):
        async with app.open(worker=True):
            raise AssertionError("it is not open")


async def test_a_worker_without_isolated_handlers_looks_for_no_module(app: Leasehold) -> None:
    @app.job
    def tell(job: Job) -> int:
        return 1

    async with app.open(worker=True):
        assert (await ended(app, await app.tenant("acme").aenqueue(tell))).result == 1


def test_a_module_comes_before_the_script_that_imported_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    app, module = Leasehold(), ModuleType("shop_of_a_test")
    module.__spec__ = ModuleSpec("shop_of_a_test", None)
    monkeypatch.setattr(module, "app", app, raising=False)
    monkeypatch.setitem(sys.modules, "shop_of_a_test", module)
    monkeypatch.setattr(sys.modules["__main__"], "app_of_a_test", app, raising=False)
    assert target_of(app) == "shop_of_a_test:app"


def test_isolation_is_not_part_of_the_stored_definition() -> None:
    plain, isolated = Leasehold(), Leasehold()

    def tell(job: Job) -> None: ...

    plain.job(tell)
    isolated.job(isolation="process", memory="512MB")(tell)
    assert isolated.handlers["tell"].definition == plain.handlers["tell"].definition
    assert isolated.handlers["tell"].isolation == Isolation(512 * 2**20)
    assert plain.handlers["tell"].isolation is None


def test_options_that_do_not_fit_are_refused_where_they_stand() -> None:
    app = Leasehold()
    with pytest.raises(InvalidInput, match="can't limit a handler that shares the process"):
        app.job(memory="512MB")
    with pytest.raises(InvalidInput, match=r'no option "isolatoin"\. Did you mean "isolation"'):
        app.add("tell", object, isolatoin="process")  # type: ignore[arg-type]

"""The wheel contains all source files, the command and the license, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=110,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_every_source_file_is_in_it_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    ours = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and file.suffix in (".py", ".sql", ".typed", ".html", ".css", ".js", ".svg")
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == ours
    assert {"leasehold/py.typed", "leasehold/engines/postgres/migrations/0001_foundation.sql"} <= packed


def test_it_brings_the_command_the_pytest_plugin_and_the_license(wheel: zipfile.ZipFile) -> None:
    described = {name.split(".dist-info/")[1]: name for name in wheel.namelist() if ".dist-info/" in name}
    entry_points = wheel.read(described["entry_points.txt"]).decode()
    assert "leasehold = leasehold.cli:main" in entry_points
    assert "[pytest11]\nleasehold = leasehold.testing.plugin" in entry_points
    assert "licenses/LICENSE" in described

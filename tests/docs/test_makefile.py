"""Checks the output of `make` in a fresh checkout, and that one of its targets runs each test."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
# Replaces uv: prints its arguments, and makes the programs of later steps.
UV = """#!/bin/sh
echo "uv $1 $2"
mkdir -p .venv/bin && echo "#!/bin/sh" > .venv/bin/python && chmod +x .venv/bin/python
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_says_that_it_installs_before_it_does(tmp_path: Path) -> None:
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    uv = tmp_path / "tools" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV)
    uv.chmod(0o755)
    path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
    for demo, said in (("first", ["Installing", "uv venv", "uv pip"]), ("second", [])):
        done = subprocess.run(
            ["make", "--silent", "demo"], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=True
        )
        assert [line[: len(word)] for line, word in zip(done.stdout.splitlines(), said, strict=True)] == said, demo


def test_files_are_marked_as_programs_by_their_list_alone() -> None:
    """`make test-programs` collects the files of the list in tests/conftest.py: a mark elsewhere is never run."""
    tests = MAKEFILE.parent / "tests"
    marked = [file.name for file in tests.rglob("test_*.py") if re.search(r"mark\.programs\b", file.read_text())]
    assert marked == []

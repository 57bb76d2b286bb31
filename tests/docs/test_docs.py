"""What the docs say is run, or looked up."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text()):
            if match[1] == language:
                yield page, match[2]


COMMANDS = [
    (page, line.removeprefix("$ "))
    for page, block in blocks("console")
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.mark.parametrize(("page", "code"), list(blocks("python")), ids=lambda value: getattr(value, "name", ""))
def test_a_python_example_runs_in_an_empty_folder(page: Path, code: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: getattr(value, "name", value))
def test_a_command_works(page: Path, command: str, tmp_path: Path) -> None:
    """`make` can't run inside of itself: its targets are looked up. A worker runs for ever: so are its options."""
    words = [word for word in shlex.split(command) if "=" not in word]
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert words[0] == "leasehold"
    if words[1] == "worker":
        words = ["leasehold", "worker", "--help"]
        options = re.findall(r"--[a-z]+", command)
    else:
        options = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    run = [sys.executable, "-c", "from leasehold.cli import main; main()", *words[1:]]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == (6 if "--check" in words else 0), done.stderr
    assert [option for option in options if option not in done.stdout] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


async def test_every_column_of_ours_on_the_map_exists(database_url: str) -> None:
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|", (ROOT / "docs/reference/column-map.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row)}
    connection = await asyncpg.connect(database_url)
    try:
        found = await connection.fetch(
            "select table_name || '.' || column_name from information_schema.columns where table_schema = 'leasehold'"
        )
    finally:
        await connection.close()
    assert len(named) > 40
    assert named - {row[0] for row in found} == set()

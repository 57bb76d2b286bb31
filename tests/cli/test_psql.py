"""psql on the database, wherever that is."""

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.terminal import CommandLine

from leasehold import embedded

LEASEHOLD = [sys.executable, "-c", "from leasehold.cli import main; main()"]


def typed(*words: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    return subprocess.run(
        [*LEASEHOLD, "psql", *words],
        cwd=folder,
        env=known | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_psql_runs_on_the_database_that_the_url_names(database_url: str, tmp_path: Path) -> None:
    done = typed("--", "-Atc", "select 6 * 7", folder=tmp_path, LEASEHOLD_URL=database_url)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_psql_gets_no_schema_that_the_url_names_for_leasehold(database_url: str, tmp_path: Path) -> None:
    url = f"{database_url}{'&' if '?' in database_url else '?'}schema=rented"
    done = typed("--", "-Atc", "select 6 * 7", folder=tmp_path, LEASEHOLD_URL=url)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_psql_starts_the_embedded_postgres_of_the_folder(prepared_home: Path) -> None:
    folder = prepared_home.parent
    subprocess.run([*LEASEHOLD, "migrate"], cwd=folder, check=True, capture_output=True, timeout=60)
    done = typed("--", "-Atc", "select count(*) from leasehold.jobs", folder=folder)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_psql_passes_its_exit_code_on(database_url: str, tmp_path: Path) -> None:
    done = typed("--", "-v", "ON_ERROR_STOP=1", "-c", "select nothing", folder=tmp_path, LEASEHOLD_URL=database_url)
    assert done.returncode == 1


async def test_psql_prints_the_command_that_reaches_the_database(leasehold: CommandLine) -> None:
    asked = await leasehold("psql", "--print")
    command = [embedded.psql(), *shlex.split(asked.out)[1:], "-Atc", "select 1"]
    assert await asyncio.to_thread(subprocess.check_output, command, text=True) == "1\n"


async def test_psql_tells_machines_the_url(leasehold: CommandLine) -> None:
    assert (await leasehold("psql", "--json")).document["url"] == leasehold.url


async def test_psql_makes_no_database_where_there_is_none(leasehold: CommandLine, tmp_path: Path) -> None:
    asked = await leasehold("psql", "--json", LEASEHOLD_URL="", LEASEHOLD_HOME=str(tmp_path / "none"))
    assert asked.code == 7
    assert not (tmp_path / "none").exists()

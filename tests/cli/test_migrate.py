"""`leasehold migrate`, as people type it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from tests.cli.terminal import Answer, run

from leasehold.engines.postgres.migrate import migrations

COMMAND = [sys.executable, "-c", "from leasehold.cli import main; main()"]


def leasehold(*words: str, url: str | None = None, home: Path | None = None) -> Answer:
    """Runs a command in this process: a new one would import all modules, and prove nothing more."""
    named = {"LEASEHOLD_URL": url} if url else {}
    return run(words, **named | ({"LEASEHOLD_HOME": str(home)} if home else {}))


def in_a_process(*words: str, url: str | None = None, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    environment |= {"LEASEHOLD_URL": url} if url else {}
    return subprocess.run(
        [*COMMAND, *words], env=environment | more, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


def test_check_of_a_missing_schema_exits_with_6_and_says_what_to_do(url: str) -> None:
    done = leasehold("migrate", "--check", "--schema", "fresh", url=url)
    assert done.code == 6
    assert 'the schema "fresh" does not exist' in done.err
    assert "Run: leasehold migrate" in done.err
    assert done.out == ""


def test_migrate_applies_and_check_is_content_afterwards(url: str) -> None:
    applied = leasehold("migrate", "--schema", "fresh", url=url)
    assert applied.code == 0
    assert "applied 0001_foundation" in applied.err
    assert leasehold("migrate", "--check", "--schema", "fresh", url=url).code == 0


def test_the_fix_for_another_schema_names_it(url: str) -> None:
    done = leasehold("jobs", "--schema", "fresh", url=url)
    assert done.code == 6
    assert "Run: leasehold migrate --schema fresh" in done.err


@pytest.mark.parametrize(("needs", "code"), [(1, 0), (9999, 6)], ids=["still works", "needs newer code"])
async def test_a_newer_schema_is_not_called_up_to_date(url: str, needs: int, code: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "insert into leasehold.migrations (version, name, needs) select 9999, 'later', $1", needs
    )
    await connection.close()
    done = await asyncio.to_thread(leasehold, "migrate", url=url)
    assert done.code == code
    assert "up to date" not in done.err
    assert "is at 9999" in done.err


def test_a_locale_without_utf_8_reads_the_same_sql(url: str) -> None:
    done = in_a_process("migrate", "--sql", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == in_a_process("migrate", "--sql", LC_ALL="C.UTF-8").stdout
    assert "…" in done.stdout


def test_migrating_twice_says_that_there_is_nothing_to_do(url: str) -> None:
    assert "up to date" in leasehold("migrate", url=url).err


def test_json_goes_to_stdout_alone(url: str) -> None:
    done = leasehold("migrate", "--json", "--schema", "fresh", url=url)
    known = migrations("fresh")
    titles, newest = [migration.title for migration in known], known[-1].version
    assert json.loads(done.out) == {"schema": "fresh", "applied": titles, "version": newest, "known": newest}


def test_an_error_is_json_too_when_asked_for(url: str) -> None:
    done = leasehold("migrate", "--check", "--json", "--schema", "a b", url=url)
    assert done.code == 2
    assert json.loads(done.out)["error"]["code"] == "LH-1000"


def test_sql_prints_the_script_and_needs_no_database() -> None:
    done = leasehold("migrate", "--sql", "--schema", "mine", url="postgresql://127.0.0.1:1/nobody")
    assert done.code == 0
    assert done.out.startswith("begin;")
    assert 'create table "mine".jobs (' in done.out
    assert done.out.endswith("commit;\n")


def test_sql_as_json_is_a_document() -> None:
    done = leasehold("migrate", "--sql", "--schema", "mine", "--json")
    assert json.loads(done.out)["sql"] == leasehold("migrate", "--sql", "--schema", "mine").out


def test_check_and_sql_exclude_each_other() -> None:
    done = leasehold("migrate", "--check", "--sql", "--json")
    assert (done.code, json.loads(done.out)["error"]["code"]) == (2, "LH-1000")


def test_a_database_that_is_away_exits_with_7() -> None:
    done = leasehold("migrate", url="postgresql://127.0.0.1:1/nobody")
    assert done.code == 7
    assert "LH-3001" in done.err


def test_a_url_that_names_no_postgres_exits_with_2() -> None:
    done = leasehold("migrate", url="mysql://127.0.0.1/nobody")
    assert done.code == 2
    assert "names no engine. Nothing was opened" in done.err


def test_a_url_that_names_a_driver_gets_a_hint() -> None:
    done = leasehold("migrate", url="postgresql+asyncpg://127.0.0.1/nobody")
    assert done.code == 2
    assert "Leave +asyncpg out" in done.err


def test_without_a_url_the_embedded_postgres_is_used(prepared_home: Path) -> None:
    done = leasehold("migrate", home=prepared_home)
    assert done.code == 0, done.err
    assert "started for you" in done.err
    assert "applied 0001_foundation" in done.err


def test_an_error_is_one_json_document(url: str) -> None:
    done = leasehold("migrate", "--check", "--json", "--schema", "fresh", url=url)
    assert (done.code, json.loads(done.out)["error"]["code"]) == (6, "LH-2001")


def test_a_setting_that_can_not_be_read_is_a_message_and_no_traceback() -> None:
    done = subprocess.run(
        [*COMMAND, "migrate", "--sql"],
        env=os.environ | {"LEASEHOLD_NOTIFY": "maybe"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "'maybe' is neither on nor off" in done.stderr
    assert "Traceback" not in done.stderr

"""The command line as processes: pipes, signals and exit codes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from tests.cli.terminal import NOWHERE
from tests.cli.terminal import run as in_this_process
from tests.cli.test_migrate import COMMAND
from tests.store.bench import UNKNOWN_ID, Bench

from leasehold.model.job import LogLine

# Children of tests in the background ignore Ctrl-C, unless they handle it on purpose.
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from leasehold.cli import main; main()"
)
GREETER = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
async def greet(job: Job, name: str, times: int = 1) -> list[str]:
    job.log(f"greeting {name}")
    return [f"Hello {name}!"] * times
"""


def environment(url: str | None, **more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    return inherited | ({"LEASEHOLD_URL": url} if url else {}) | more


def run(
    *words: str, url: str | None = None, folder: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(url, **more),
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@contextmanager
def started(*words: str, url: str, folder: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A command that goes on; ended with the block if it has not ended by then."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words],
        env=environment(url),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


async def next_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).rstrip("\n")


async def rest(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, out, err


def test_from_code_to_result_with_a_worker_beside_it(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(GREETER)
    assert run("definitions", "sync", "greeter.py", url=database_url, folder=tmp_path).returncode == 0
    with started("worker", "greeter.py", url=database_url, folder=tmp_path):
        done = run("enqueue", "greet", "name=Ann", "times=2", "--follow", "-t", "acme", url=database_url)
    assert done.returncode == 0, done.stderr
    job, result = done.stdout.splitlines()
    assert result == '["Hello Ann!","Hello Ann!"]'
    assert "greeting Ann" in done.stderr
    shown = run("job", job[-8:], "--json", url=database_url)
    assert orjson.loads(shown.stdout)["status"] == "succeeded"


LOOKING = [
    ["jobs"],
    ["job", UNKNOWN_ID],
    ["logs", UNKNOWN_ID],
    ["retry", UNKNOWN_ID],
    ["cancel", UNKNOWN_ID],
    ["run-now", UNKNOWN_ID],
    ["workers"],
    ["prune"],
    ["doctor"],
    ["definitions"],
    ["definitions", "show", "greet"],
    ["definitions", "activate", "greet"],
    ["definitions", "sync", "greeter.py"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_command_that_only_looks_makes_no_database(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greeter.py").write_text(GREETER)
    monkeypatch.chdir(tmp_path)
    refused = in_this_process([*words, "--json"])
    assert (refused.code, refused.error["code"]) == (7, "LH-3010")
    assert "LEASEHOLD_URL is not set, and .leasehold in " in refused.error["message"]
    assert not (tmp_path / ".leasehold").exists()


def test_an_empty_folder_gets_an_embedded_postgres_and_is_told(tmp_path: Path) -> None:
    assert run("migrate", folder=tmp_path).returncode == 0
    listed = run("jobs", "--json", folder=tmp_path)
    assert (listed.returncode, listed.stdout) == (0, "[]\n"), listed.stderr
    assert "an embedded Postgres in .leasehold, for want of LEASEHOLD_URL" in listed.stderr
    examined = run("doctor", "--json", folder=tmp_path)
    first, *_ = orjson.loads(examined.stdout)["findings"]
    assert (first["check"], first["verdict"]) == ("url", "warning")
    assert "for development" in first["text"]


def test_an_enqueue_may_be_what_makes_the_database(tmp_path: Path) -> None:
    refused = run("enqueue", "greet", "--tenant", "acme", "--json", folder=tmp_path)
    assert (refused.returncode, orjson.loads(refused.stdout)["error"]["code"]) == (3, "LH-1002")
    assert (tmp_path / ".leasehold").is_dir()


async def test_followed_lines_come_while_the_job_runs(bench: Bench, database_url: str) -> None:
    claim = await bench.running()
    with started("logs", claim.job, "-f", "--json", url=database_url) as process:
        await bench.store.append_log([(claim, LogLine(number=1, text="one"))])
        assert orjson.loads(await next_line(process))["text"] == "one"
        await bench.store.append_log([(claim, LogLine(number=2, text="two"))])
        assert orjson.loads(await next_line(process))["text"] == "two"
        await bench.succeed(claim)
        assert await rest(process) == (0, "", "")


async def test_ctrl_c_while_following_exits_with_130_and_no_traceback(bench: Bench, database_url: str) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number=1, text="one"))])
    with started("logs", claim.job, "-f", url=database_url) as process:
        assert (await next_line(process)).endswith(" one")
        process.send_signal(signal.SIGINT)
        assert await rest(process) == (130, "", "try 1\ninterrupted\n")


async def test_ctrl_c_while_waiting_exits_with_130_and_the_job_goes_on(bench: Bench, database_url: str) -> None:
    with started("enqueue", "report", "--wait", "--tenant", "acme", url=database_url) as process:
        job = await next_line(process)
        process.send_signal(signal.SIGINT)
        code, out, err = await rest(process)
    assert (code, out) == (130, "")
    assert err.splitlines()[-2:] == [f"job {job} goes on. See: leasehold logs {job} -f", "interrupted"]
    assert (await bench.job((await bench.claim_one()).job)).id == job


async def test_a_pipe_that_is_closed_ends_it_without_a_word(bench: Bench, database_url: str) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number=1, text="one"))])
    with started("logs", claim.job, "-f", url=database_url) as process:
        await next_line(process)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        await bench.store.append_log([(claim, LogLine(number=2, text="two"))])
        code, _, err = await rest(process)
    assert (code, err) == (1, "try 1\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["jobs"], 0),
        (["doctor", "--schema", "fresh"], 1),
        (["jobs", "--state", "nonsense"], 2),
        (["job", UNKNOWN_ID], 3),
        (["jobs", "--schema", "fresh"], 6),
        (["jobs", "--url", NOWHERE], 7),
    ],
)
def test_the_exit_code_is_that_of_the_process(database_url: str, words: list[str], code: int) -> None:
    done = run(*words, url=database_url)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


async def test_a_terminal_that_has_no_such_characters_gets_others(bench: Bench, database_url: str) -> None:
    job = await bench.dead_lettered(payload={"name": "Ünsal"})
    people = run("jobs", url=database_url, PYTHONIOENCODING="ascii")
    assert (people.returncode, people.stderr.count("Traceback")) == (0, 0)
    assert f"? dead letter  {job}" in people.stdout
    machines = run("job", job, "--json", url=database_url, PYTHONIOENCODING="ascii")
    assert orjson.loads(machines.stdout)["payload"] == {"name": "Ünsal"}

"""The handler of a command: its environment, and the outcome of each end."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.commands.kit import FakeJob, folders, guards
from tests.conftest import eventually
from tests.model.claims import a_claim

from leasehold.commands import command_handler
from leasehold.commands import folders as folders_module
from leasehold.commands.folders import WorkingFolder, make_folder, parent_folder
from leasehold.commands.handler import limits_of
from leasehold.model.command import SEARCH_PATH, Command, ResourceLimits
from leasehold.model.definition import Definition
from leasehold.model.outcome import Outcome, Raised, Rejected, Snoozed, Succeeded

SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "note": {"type": "string"}},
    "additionalProperties": False,
}
EXITS = ("/bin/sh", "-c", 'echo "going" >&2; echo "exit $1" >&2; exit $1', "--", "{code}")

IGNORES_TERM = ("/bin/sh", "-c", "trap '' TERM; echo up; sleep 1000; sleep 1000")


def a_command(*template: str, **options: Any) -> Command:
    return Command(Definition("report", schema=SCHEMA), template, **options)


def argv_of(pid: int) -> list[str]:
    return Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")[:-1]


async def run(command: Command, job: FakeJob | None = None, **payload: Any) -> tuple[Outcome, FakeJob]:
    job = job or FakeJob()
    outcome = await command_handler(command)(job, payload)
    assert folders() == []
    return outcome, job


async def test_exit_0_succeeds_with_a_small_result() -> None:
    outcome, job = await run(a_command("/bin/echo", "{note}"), note="hello")
    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.result or "") == {"exit_code": 0, "stdout_bytes": 6, "stderr_bytes": 0}
    assert job.lines.texts == ["hello"]
    assert (job.process.argv, job.process.exit_code) == (("/bin/echo", "hello"), 0)


async def test_another_exit_code_is_retried_and_tells_the_last_line() -> None:
    outcome, job = await run(a_command(*EXITS), code=3)
    assert outcome == Raised("exit_3", "exited with 3: exit 3")
    assert job.process.stderr.tail == "going\nexit 3\n"


async def test_an_exit_code_of_fail_on_is_final() -> None:
    outcome, _ = await run(a_command(*EXITS, fail_on=frozenset({4})), code=4)
    assert outcome == Raised("exit_4", "exited with 4: exit 4", final=True)


async def test_an_exit_code_of_snooze_on_runs_again_later() -> None:
    outcome, _ = await run(a_command(*EXITS, snooze_on={75: timedelta(minutes=5)}), code=75)
    assert outcome == Snoozed(timedelta(minutes=5))


@pytest.mark.parametrize(
    ("signal", "code", "message"),
    [
        ("KILL", "killed", "killed by SIGKILL, not by the worker: possibly out of memory"),
        ("SEGV", "SIGSEGV", "ended by SIGSEGV, which the worker did not send"),
        ("XCPU", "cpu_limit", "used more processor time than its limit allows (SIGXCPU)"),
    ],
)
async def test_signals_that_others_sent_are_told_apart(signal: str, code: str, message: str) -> None:
    outcome, job = await run(a_command("/bin/sh", "-c", f"kill -{signal} $$"))
    assert outcome == Raised(code, message)
    assert job.process.signal == f"SIG{signal}"


async def test_a_payload_that_does_not_fit_is_rejected_and_says_why() -> None:
    outcome, job = await run(a_command("/bin/echo", "{note}"), note=7)
    assert isinstance(outcome, Rejected)
    assert outcome.code == "payload_invalid"
    assert "note" in outcome.message
    assert not job.started


async def test_a_program_that_can_not_be_executed_fails_for_good() -> None:
    outcome, _ = await run(a_command("/no/such/program"))
    assert outcome == Raised("not_started", "can't execute /no/such/program: No such file or directory", final=True)


async def test_a_system_without_processes_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr("subprocess.Popen", refuse)
    outcome, _ = await run(a_command("/bin/true"))
    assert isinstance(outcome, Raised)
    assert (outcome.code, outcome.final) == ("not_started", False)


async def test_the_environment_has_only_listed_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_URL", "postgresql://secret")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    claim = a_claim(attempt=3, batch=9)
    printing = (sys.executable, "-I", "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    command = a_command(*printing, env={"MODE": "fast", "JOB_ID": "mine"}, pass_env=("WANTED", "MISSING"))
    _, job = await run(command, FakeJob(claim))
    seen = json.loads(job.lines.texts[0])
    folder = seen.pop("TMPDIR")
    assert os.path.basename(os.path.dirname(folder)).startswith("leasehold-commands-")
    seen.pop("LC_CTYPE", None)  # Python sets it
    assert seen == {
        "PATH": SEARCH_PATH,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "WANTED": "yes",
        "MODE": "fast",
        "JOB_ID": claim.job,
        "JOB_TENANT": "acme",
        "JOB_ATTEMPT": "3",
        "JOB_FENCE": claim.fence,
    }


def test_no_two_claims_of_a_job_have_the_same_fence() -> None:
    claims = [a_claim(attempt=a, batch=b, worker=w) for a in (1, 2) for b in (1, 2) for w in ("w-1", "w-2")]
    assert len({claim.fence for claim in claims}) == len(claims)


async def test_fields_without_a_slot_are_in_the_payload_file() -> None:
    command = a_command("/bin/sh", "-c", 'cat "$INPUT"; stat -c %a "$INPUT"', payload_file="INPUT")
    _, job = await run(command, note="long", code=1)
    content, mode = "".join(job.lines.texts).rsplit("}", 1)
    assert json.loads(content + "}") == {"note": "long", "code": 1}
    assert mode == "600"


async def test_a_canceled_run_ends_only_after_its_program() -> None:
    command = a_command(
        "/bin/sh", "-c", "trap '' TERM; echo up; sleep 1000; sleep 1000", grace=timedelta(seconds=0.3)
    )
    job = FakeJob()
    running = asyncio.create_task(command_handler(command)(job, {}))
    await asyncio.wait_for(job.lines.arrived.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not guards()
    assert (job.process.signal, job.process.stopped) == ("SIGKILL", True)
    assert command.cleanup > 0.3


async def test_a_lost_lease_leaves_no_grace() -> None:
    command = a_command(*IGNORES_TERM, grace=timedelta(hours=1))
    job = FakeJob()
    running = asyncio.create_task(command_handler(command)(job, {}))
    await asyncio.wait_for(job.lines.arrived.wait(), 30)
    job.lose_lease()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)


def test_processor_time_is_bounded_by_the_timeout() -> None:
    command = Command(Definition("report", timeout=timedelta(seconds=10)), ("/bin/true",))
    cpu = 12 * (os.cpu_count() or 1)
    assert ("RLIMIT_CPU", cpu, cpu + 5) in limits_of(command, timedelta(seconds=10))


def test_limits_are_those_of_the_command() -> None:
    limits = ResourceLimits(memory=2**30, cpu=timedelta(seconds=1.5), open_files=99, file_size=10**6)
    command = Command(Definition("report"), ("/bin/true",), limits=limits)
    assert limits_of(command, timedelta(hours=1)) == [
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_CPU", 2, 7),
        ("RLIMIT_NOFILE", 99, 99),
        ("RLIMIT_FSIZE", 10**6, 10**6),
        ("RLIMIT_AS", 2**30, 2**30),
    ]


async def test_secrets_of_its_environment_are_redacted() -> None:
    _, job = await run(replace(a_command("/usr/bin/env"), env={"API_TOKEN": "hunter2-hunter2"}))
    assert "API_TOKEN=[redacted]" in job.process.as_json()


async def test_a_folder_that_cannot_be_filled_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: WorkingFolder, name: str, content: bytes) -> Path:
        raise OSError(28, "No space left on device")

    before = len(list(parent_folder().iterdir())), len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(WorkingFolder, "write", refuse)
    outcome, _ = await run(replace(a_command("/bin/true"), payload_file="PAYLOAD"))
    assert isinstance(outcome, Raised)
    assert (outcome.code, outcome.final) == ("not_started", False)
    assert (len(list(parent_folder().iterdir())), len(os.listdir("/proc/self/fd"))) == before


async def test_secrets_in_arguments_and_output_are_redacted() -> None:
    job = FakeJob()
    job.hide("hunter2-hunter2")
    await run(a_command("/bin/echo", "{note}"), job, note="hunter2-hunter2")
    assert "hunter2" not in job.process.as_json()
    assert "hunter2" not in str(job.lines.texts)


async def test_the_first_run_removes_folders_that_were_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders_module._Leftovers, "looked_at", float("-inf"))
    left = make_folder()
    left.release()
    await command_handler(a_command("/bin/true"))(FakeJob(), {})

    async def removed() -> bool:
        return folders() == []

    await eventually(removed, what="the removal of the leftover")


async def test_a_secret_of_the_declared_environment_is_redacted() -> None:
    env = {"SHOP_TOKEN": "t0k3n-of-the-shop", "SHOP_NAME": "of-the-shop"}
    _, job = await run(a_command("/bin/sh", "-c", "echo $SHOP_TOKEN; echo $SHOP_NAME", env=env))
    assert job.lines.texts == ["[redacted]", "of-the-shop"]
    assert job.process.stdout.tail == "[redacted]\nof-the-shop\n"


async def test_the_pid_of_a_long_run_is_logged_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.commands.process.LONG_RUN", 0.2)
    job = FakeJob()
    running = asyncio.create_task(command_handler(a_command("/bin/sleep", "1000"))(job, {}))
    await asyncio.wait_for(job.lines.arrived.wait(), 30)
    (text,) = job.lines.texts
    assert argv_of(int(text.removeprefix("runs as process "))) == ["/bin/sleep", "1000"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_short_run_logs_no_pid() -> None:
    _, job = await run(a_command("/bin/true"))
    assert job.lines.texts == []

"""Commands under a worker: what their attempts record, how they are stopped, and what a worker leaves."""

import signal
import tempfile
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.commands.kit import descriptors, folders, guards, marked, memory, peak_memory
from tests.conftest import eventually
from tests.tenant_kit import HOUR
from tests.worker.shop import AT_ONCE, Processes, Shop, Workplace, session_of

from leasehold.commands import command_handler
from leasehold.model.command import Command
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, LineKind
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Handlers


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def commands(*template: str, of_command: dict[str, Any] | None = None, **of_definition: Any) -> Handlers:
    fields = {"backoff": AT_ONCE, "durable_claims": True, **of_definition}
    command = Command(Definition("report", **fields), template, **(of_command or {}))
    handlers = Handlers()
    handlers.add(command.definition, cleanup=command.cleanup)(command_handler(command))
    return handlers


def shell(text: str, of_command: dict[str, Any] | None = None, **of_definition: Any) -> Handlers:
    return commands("/bin/sh", "-c", text, of_command=of_command, **of_definition)


async def line_of(shop: Workplace, job: JobId, text: str) -> None:
    async def said() -> bool:
        return text in [line.text for line in await shop.lines(job)]

    await eventually(said, what=f"the line {text!r}")


async def outputs(shop: Shop, job: JobId) -> list[str]:
    """The lines of its standard output; the log may also have its pid, if it runs for long."""
    return [line.text for line in await shop.lines(job) if line.kind is LineKind.STDOUT]


async def test_a_command_succeeds_and_its_attempt_tells_how(shop: Shop) -> None:
    async with shop.working(shell("echo out; echo err >&2; echo ::progress 0.5 half")):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert record.status is Status.SUCCEEDED
    assert record.result == {"exit_code": 0, "stdout_bytes": 24, "stderr_bytes": 4}
    (attempt,) = await shop.jobs.attempts(job)
    assert (attempt.status, attempt.exit_code) == (AttemptStatus.SUCCEEDED, 0)
    assert attempt.details["stdout_tail"] == "out\n::progress 0.5 half\n"
    assert attempt.details["stderr_tail"] == "err\n"
    assert attempt.details["argv"] == ["/bin/sh", "-c", "echo out; echo err >&2; echo ::progress 0.5 half"]
    assert isinstance(attempt.details["pid"], int)
    lines = {(line.kind, line.text, line.progress) for line in await shop.lines(job)}
    assert lines == {
        (LineKind.STDOUT, "out", None),
        (LineKind.STDERR, "err", None),
        (LineKind.PROGRESS, "half", 0.5),
    }


async def test_another_exit_code_is_retried_until_exhausted(shop: Shop) -> None:
    async with shop.working(shell("echo no >&2; exit 9", max_attempts=2)):
        record = await shop.ended(job := await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "exit_9")
    assert record.last_error == "exited with 9: no"
    attempts = await shop.jobs.attempts(job)
    assert [(each.status, each.exit_code) for each in attempts] == [(AttemptStatus.FAILED, 9)] * 2


async def test_an_exit_code_of_fail_on_fails_the_job(shop: Shop) -> None:
    async with shop.working(shell("exit 3", {"fail_on": frozenset({3})})):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.tries) == (Status.FAILED, 1)


async def test_an_exit_code_of_snooze_on_uses_no_try(shop: Shop) -> None:
    async with shop.working(shell("exit 75", {"snooze_on": {75: timedelta(hours=1)}})):
        job = await shop.enqueue()
        record = await shop.waits_again(job)
    assert record.tries == 0
    attempt = await shop.last_attempt(job)
    assert (attempt.status, attempt.exit_code) == (AttemptStatus.SNOOZED, 75)


async def test_a_timeout_is_told_apart_and_keeps_the_output(shop: Shop) -> None:
    async with shop.working(shell("echo up; exec sleep 1000", timeout=timedelta(seconds=0.5), max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "timeout")
    attempt = await shop.last_attempt(job)
    assert (attempt.status, attempt.exit_code) == (AttemptStatus.TIMEOUT, None)
    assert (attempt.details["signal"], attempt.details["stdout_tail"]) == ("SIGTERM", "up\n")


async def test_a_kill_by_others_may_be_out_of_memory(shop: Shop) -> None:
    async with shop.working(shell("kill -KILL $$", max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    assert record.last_error_code == "killed"
    assert (await shop.last_attempt(job)).details["signal"] == "SIGKILL"


async def test_a_program_that_is_missing_fails_the_job(shop: Shop) -> None:
    async with shop.working(commands("/no/such/program")):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.FAILED, "not_started")


async def test_a_payload_without_a_slot_fails_by_decision(shop: Shop) -> None:
    schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    async with shop.working(commands("/bin/echo", "{note}", schema=schema)):
        record = await shop.ended(await shop.enqueue())
    assert (record.status, record.last_error_code) == (Status.FAILED, "payload_invalid")
    assert "note" in str(record.last_error)


@pytest.mark.parametrize("output", ["\\000\\377", "\\360"], ids=["NUL and 0xff", "half a character"])
async def test_hostile_output_can_not_make_a_finish_fail(shop: Shop, output: str) -> None:
    async with shop.working(shell(f"printf '{output}'; printf '{output}' >&2; exit 1", max_attempts=1)):
        record = await shop.ended(job := await shop.enqueue())
    assert record.last_error_code == "exit_1"
    assert (await shop.last_attempt(job)).details["stdout_bytes"] in (1, 2)


async def test_a_line_of_300_mb_can_not_make_a_finish_fail(shop: Shop) -> None:
    async with shop.working(shell("head -c 300000000 /dev/zero")):
        record = await shop.ended(job := await shop.enqueue())
    assert record.status is Status.SUCCEEDED
    assert record.result["stdout_bytes"] == 300_000_000
    (text,) = await outputs(shop, job)
    assert text.endswith("(300,000,000 bytes, the first 8,000 are kept)")


async def test_lines_beyond_the_bound_are_counted_in_place(shop: Shop) -> None:
    async with shop.working(shell("seq 1 5000; sleep 1.5; echo last"), log_lines=100):
        await shop.ended(job := await shop.enqueue())
    texts = [line.text for line in await shop.lines(job)]
    numbers = [text for text in texts if text.isdecimal()]
    dropped = [int(text.split()[1].replace(",", "")) for text in texts if "were dropped here" in text]
    assert len(numbers) + sum(dropped) == 5000
    assert "at most 100 unwritten lines" in next(text for text in texts if "dropped" in text)
    assert texts[-1] == "last"


async def test_lines_can_be_followed_while_the_command_runs(shop: Shop) -> None:
    async with shop.working(shell("echo first; exec sleep 1000")):
        job = await shop.enqueue()
        await line_of(shop, job, "first")
        assert await shop.status(job) is Status.RUNNING


async def test_a_cancel_stops_the_program(shop: Shop) -> None:
    async with shop.working(shell("echo up; exec sleep 1000")):
        job = await shop.enqueue()
        await line_of(shop, job, "up")
        await shop.jobs.cancel([job])
        record = await shop.ended(job)
        assert not guards()
    assert record.status is Status.CANCELED
    attempt = await shop.last_attempt(job)
    assert (attempt.status, attempt.details["signal"]) == (AttemptStatus.CANCELED, "SIGTERM")


async def test_a_grace_longer_than_the_margin_is_waited_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.worker.attempt.MARGIN", 0.05)
    cleaning = "trap 'sleep 0.5; echo cleaned; exit 1' TERM; echo up; sleep 1000 & wait"
    async with shop.working(shell(cleaning, {"grace": timedelta(seconds=30)})):
        job = await shop.enqueue()
        await line_of(shop, job, "up")
        await shop.jobs.cancel([job])
        await shop.ended(job)
    assert [line.text for line in await shop.lines(job)] == ["up", "cleaned"]


async def test_the_slot_is_free_only_when_the_tree_is_dead(shop: Shop) -> None:
    ignoring = "trap '' TERM; echo $JOB_FENCE; sleep 1000; sleep 1000"
    options = {"grace": timedelta(seconds=0.5)}
    async with shop.working(shell(ignoring, options, timeout=timedelta(seconds=0.5), max_attempts=1), slots=1):
        first, second = await shop.enqueue(), await shop.enqueue()
        await shop.ended(first)
        (fence,) = await outputs(shop, first)
        assert not marked(fence)
        await shop.jobs.cancel([second])


async def test_a_lost_lease_kills_the_program_at_once(shop: Shop) -> None:
    async with shop.working(shell("trap '' TERM; echo up; sleep 1000", {"grace": timedelta(hours=1)})) as worker:
        job = await shop.enqueue()
        await line_of(shop, job, "up")
        for attempt in list(session_of(worker).ledger.attempts.values()):
            attempt.stop(None)

        async def gone() -> bool:
            return not guards()

        await eventually(gone, what="the end of the program")


async def test_a_shutdown_ends_even_a_long_grace(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.worker.session.MARGIN", 0.2)
    async with shop.working(shell("trap '' TERM; echo up; sleep 1000", {"grace": timedelta(hours=1)})):
        job = await shop.enqueue()
        await line_of(shop, job, "up")
    assert not guards()
    record = await shop.job(job)
    assert (record.status, record.tries) == (Status.QUEUED, 0)
    assert (await shop.last_attempt(job)).status is AttemptStatus.GIVEN_BACK


async def test_an_exit_beside_the_timeout_is_labelled_by_its_status(shop: Shop) -> None:
    timeout = timedelta(seconds=0.2)
    # A guard starts its program some 20 ms after the timeout begins: the exits lie around it.
    schema = {"type": "object", "properties": {"delay": {"type": "number"}}}
    programs = commands("/bin/sleep", "{delay}", schema=schema, timeout=timeout, max_attempts=1)
    delays = [0.15 + number * 0.002 for number in range(20)]
    async with shop.working(programs, slots=4):
        jobs = [await shop.enqueue(payload={"delay": delay}) for delay in delays]
        records = await shop.all_ended(jobs)
    for record in records:
        attempt = await shop.last_attempt(record.id)
        succeeded = record.status is Status.SUCCEEDED
        assert succeeded == (attempt.exit_code == 0)
        assert (attempt.details.get("signal") == "SIGTERM") is (attempt.status is AttemptStatus.TIMEOUT)


APP = """
    import sys
    from leasehold import Leasehold
    app = Leasehold()
    app.command("report", argv=[sys.executable, "{program}"], grace="1h")
"""
PROGRAM = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
    print(os.environ["JOB_FENCE"], flush=True)
    time.sleep(1000)
"""


async def test_kill_9_of_a_worker_process_ends_its_commands(shop: Shop, processes: Processes, tmp_path: Path) -> None:
    program, app = tmp_path / "program.py", tmp_path / "app.py"
    program.write_text(dedent(PROGRAM))
    app.write_text(dedent(APP).format(program=program))
    worker = processes.worker(handlers=app, TMPDIR=str(tmp_path))
    await worker.says("report")
    job = await shop.enqueue()

    async def both_run() -> bool:
        fences = await outputs(shop, job)
        return len(set(fences)) == 1 and len(fences) == 2

    await eventually(both_run, what="the program and its daemon")
    fence = (await outputs(shop, job))[0]
    assert len(marked(fence)) == 2
    worker.send(signal.SIGKILL)

    async def gone() -> bool:
        return not marked(fence)

    await eventually(gone, what="the end of the tree")


async def test_a_worker_that_stands_still_loses_its_commands_in_time(
    shop: Shop, processes: Processes, tmp_path: Path
) -> None:
    """Nothing but the guard runs when the lease ends, and another worker may get the job."""
    program, app = tmp_path / "program.py", tmp_path / "app.py"
    program.write_text(dedent(PROGRAM))
    app.write_text(dedent(APP).format(program=program))
    worker = processes.worker("--lease", "3s", handlers=app, TMPDIR=str(tmp_path))
    await worker.says("report")
    job = await shop.enqueue()

    async def runs() -> bool:
        return bool(await outputs(shop, job))

    await eventually(runs, what="the program")
    (fence, *_) = await outputs(shop, job)
    assert marked(fence)
    worker.send(signal.SIGSTOP)

    async def gone() -> bool:
        return not marked(fence)

    try:
        await eventually(gone, what="the end of the tree")
    finally:
        worker.send(signal.SIGCONT)
    assert (await shop.job(job)).tries <= 1


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.faults)])
async def test_many_short_commands_leave_nothing(shop: Shop, count: int) -> None:
    async with shop.working(shell("echo hi; (setsid sleep 1000 &)"), slots=4) as worker:
        await shop.all_ended(await shop.enqueue_many(4))
        await shop.at_rest(worker)
        before = descriptors(), folders(), guards()
        records = await shop.all_ended(await shop.enqueue_many(count))
        await shop.at_rest(worker)
        assert (descriptors(), folders(), guards()) == before
    assert {record.status for record in records} == {Status.SUCCEEDED}


@pytest.mark.parametrize("megabytes", [300, pytest.param(5000, marks=pytest.mark.faults)])
async def test_a_flood_of_lines_costs_a_worker_little_memory(shop: Shop, megabytes: int) -> None:
    schema = {"type": "object", "properties": {"bytes": {"type": "integer"}}}
    flood = commands("/bin/sh", "-c", 'yes | head -c "$0"', "{bytes}", schema=schema, timeout=HOUR)
    async with shop.working(flood):
        await shop.ended(await shop.enqueue(payload={"bytes": 10_000_000}))
        before = memory()
        job = await shop.enqueue(payload={"bytes": megabytes * 1_000_000})
        record = await shop.jobs.wait_until_final(job, timedelta(minutes=10))
        assert peak_memory() - before < 20_000_000
    assert record is not None
    assert record.result["stdout_bytes"] == megabytes * 1_000_000

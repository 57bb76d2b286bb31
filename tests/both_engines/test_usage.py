"""Usage of a known mix on each engine: it equals the attempts after a kill -9, and after their workers have left."""

import signal
from pathlib import Path
from textwrap import dedent

from tests.tenant_kit import ACME
from tests.worker.shop import Processes, Workplace
from tests.worker.test_commands import line_of

from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus
from leasehold.operations import usage

APP = """
    from leasehold import Leasehold

    app = Leasehold()
    app.command("quick", argv=["/bin/true"])
    app.command("report", argv=["/bin/sh", "{program}"], max_attempts=1)
"""


async def equals_the_attempts(shop: Workplace, quick: list[JobId], killed: JobId) -> None:
    rows = {row.definition: row for row in (await usage.read(shop.store, ACME)).rows}
    ended = [await shop.last_attempt(job) for job in quick]
    assert {attempt.status for attempt in ended} == {AttemptStatus.SUCCEEDED}
    known = sum(attempt.details["cpu_seconds"] for attempt in ended)
    row = rows.pop("quick")
    assert (row.attempts, round(row.cpu.total_seconds() - known, 4), row.unknown) == (len(quick), 0, 0)
    (attempt,) = await shop.jobs.attempts(killed)
    assert attempt.finished_at is not None
    assert attempt.status is AttemptStatus.CRASHED
    row = rows.pop("report")
    assert (row.attempts, row.run, row.unknown) == (1, attempt.finished_at - attempt.started_at, 1)
    assert rows == {}


async def test_usage_equals_the_attempts_after_kill_9(shop: Workplace, processes: Processes, tmp_path: Path) -> None:
    """The killed attempt has an unknown processor time. Others had ended just before the kill, and still count."""
    app, program = tmp_path / "app.py", tmp_path / "program.sh"
    program.write_text("echo began; sleep 1000")
    app.write_text(dedent(APP).format(program=program))
    worker = processes.worker("--lease", "2s", handlers=app, TMPDIR=str(tmp_path))
    await worker.says("slots for")
    killed = await shop.enqueue()
    await line_of(shop, killed, "began")
    quick = await shop.enqueue_many(5, "quick")
    for job in quick:
        await shop.ended(job)
    worker.send(signal.SIGKILL)
    other = processes.worker("--lease", "2s", handlers=app, TMPDIR=str(tmp_path))
    await shop.ended(killed)
    await equals_the_attempts(shop, quick, killed)
    quick.append(await shop.enqueue("quick"))
    await shop.ended(quick[-1])
    other.send(signal.SIGTERM)
    assert await other.code() == 0
    await equals_the_attempts(shop, quick, killed)

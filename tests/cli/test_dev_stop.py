"""How `leasehold dev` and its workers end: by Ctrl-C, SIGTERM, kill -9, and without their data."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from time import monotonic
from unittest.mock import Mock

import pytest
from tests.cli.dev_process import APP, NO_JOBS, Dev, Start, ends, enqueue
from tests.conftest import eventually
from tests.embedded.processes import no_process_of

from leasehold.cli.dev import Options, Supervisor
from leasehold.cli.dev_workers import DevWorkers
from leasehold.embedded.places import moved_to
from leasehold.model.status import AttemptStatus, Status
from leasehold.runtime.process import SAME_KEY
from leasehold.store import Store, TenantJobs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")


async def test_a_worker_that_dies_is_begun_again(started: Start, acme: TenantJobs) -> None:
    dev = started("--json")
    await dev.is_ready()
    await enqueue(acme, "die")
    assert "ended with 9" in (await dev.tells("dev.message", topic="ended"))["text"]
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    assert len({joined["pid"] for joined in dev.told("worker.joined")}) == 2
    await dev.stop()


KILL_EVERY_SECOND = "import leasehold.cli.dev as dev; dev.uniform = lambda *_: 3600 if os.path.exists('go') else 1; "


async def test_chaos_kills_and_the_job_still_succeeds(started: Start, acme: TenantJobs, tmp_path: Path) -> None:
    dev = started("--json", "--chaos", "--workers", "1", prelude=KILL_EVERY_SECOND)
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("worker.killed", running=1)
    (tmp_path / "go").touch()
    reclaimed = await dev.tells("job.reclaimed", job=job)
    assert reclaimed["error_code"] == "lease_lost"
    assert (await ends(acme, job)).status is Status.SUCCEEDED
    assert (await acme.attempts(job))[0].status is AttemptStatus.CRASHED
    await dev.stop()
    assert "killed" in dev.news[-1]["text"]


async def test_ctrl_c_lets_a_running_job_end_and_leaves_nobody(
    started: Start, acme: TenantJobs, store: Store, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    dev.send_to_group(signal.SIGINT)
    await dev.tells("dev.message", topic="stopping")
    (tmp_path / "go").touch()
    assert await dev.code() == 0
    assert dev.family() == []
    assert (await ends(acme, job)).attempt == 1
    assert await store.workers() == []


async def test_sigterm_to_it_alone_ends_its_workers_too(started: Start, acme: TenantJobs) -> None:
    dev = started("--json", prelude="import leasehold.cli.dev as dev; dev.GRACE = 0; ")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    dev.send(signal.SIGTERM)
    assert await dev.code() == 0
    assert dev.family() == []
    assert len(dev.told("job.given_back", job=job)) == 1
    record = await acme.get(job)
    assert record is not None
    assert (record.status, record.free_attempts) == (Status.QUEUED, 1)


async def test_a_second_ctrl_c_within_a_second_gives_jobs_back(started: Start, acme: TenantJobs) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    dev.send_to_group(signal.SIGINT)
    await dev.tells("dev.message", topic="stopping")
    told = monotonic()

    async def is_another() -> bool:
        return monotonic() - told > 2 * SAME_KEY

    await eventually(is_another, what="a moment in which Ctrl-C is pressed again")
    dev.send_to_group(signal.SIGINT)
    assert await dev.code() == 0
    assert "given back now" in dev.told("dev.message", topic="stopping")[1]["text"]
    assert len(dev.told("job.given_back", job=job)) == 1


async def test_it_stops_when_nobody_reads_it_any_more(started: Start, tmp_path: Path) -> None:
    """As in `leasehold dev app.py | head`."""
    os.mkfifo(tmp_path / "pipe")
    to_pipe = "import sys; os.dup2(os.open('pipe', os.O_WRONLY), 1); sys.stdout = open(1, 'w', closefd=False); "
    dev = started("--json", prelude=to_pipe)
    with await asyncio.to_thread((tmp_path / "pipe").open) as pipe:
        assert "dev.message" in await asyncio.to_thread(pipe.readline), dev.said
    assert await dev.code() == 0
    assert dev.family() == []
    assert "Traceback" not in dev.said


def test_a_second_ctrl_c_ends_the_grace_a_third_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that started this one may pass a Ctrl-C on as well: it comes within a moment, and does not count."""
    moments = iter([100.0, 100.05, 100.5, 100.8])
    monkeypatch.setattr("leasehold.cli.dev.monotonic", lambda: next(moments))
    options = Options("app.py", workers=1, slots=1, chaos=False, reload=False, url=None, schema=None)
    supervisor, crew, ends = Supervisor(options, lambda _: None), Mock(spec=DevWorkers, is_alive=True), Mock()
    supervisor._workers, told = crew, list[tuple[int, int]]()
    monkeypatch.setattr(supervisor, "_end_now", ends)
    for _ in range(4):
        supervisor._request_stop(signal.SIGINT)
        told.append((crew.tell_to_stop.call_count, ends.call_count))
    supervisor._presence.end()
    assert told == [(0, 0), (0, 0), (1, 0), (1, 1)]


async def test_it_can_be_stopped_before_it_has_begun(started: Start) -> None:
    dev = started("--json")
    await dev.tells("dev.message", topic="app")
    dev.send_to_group(signal.SIGINT)
    assert await dev.code() == 0
    assert dev.family() == []


async def test_kill_9_leaves_no_worker_behind(started: Start, acme: TenantJobs) -> None:
    """A busy worker ends, too: no process is left to send a signal, but its stdin closes."""
    dev = started("--json", "--workers", "2")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    assert len(dev.children()) == 2
    dev.send(signal.SIGKILL)

    async def nobody() -> bool:
        return dev.family() == []

    await eventually(nobody, what="the end of the workers")
    record = await acme.get(job)
    assert record is not None
    assert record.status is Status.QUEUED, "it was not given back"


async def test_without_a_url_it_starts_and_ends_an_own_postgres(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    home = tmp_path / "data"
    dev = Dev(tmp_path, {"LEASEHOLD_HOME": str(home)}, "--json")
    try:
        await dev.is_ready()
        assert "started for you" in (await dev.tells("dev.message", topic="database"))["text"]
        assert "applied 0001_foundation" in (await dev.tells("dev.message", topic="migrations"))["text"]
        place = moved_to(home) or home
        assert not no_process_of(place)
        await dev.stop()
    finally:
        assert await dev.clear_up() == []
    assert no_process_of(place)


async def test_it_ends_with_an_error_when_its_data_are_deleted(prepared_home: Path) -> None:
    folder = prepared_home.parent
    (folder / "app.py").write_text(NO_JOBS)
    dev = Dev(folder, {}, "--json", "--no-reload")
    try:
        await dev.is_ready()
        shutil.rmtree(prepared_home)
        assert await dev.code() == 7
    finally:
        assert await dev.clear_up() == []
    assert dev.news[-1]["error"]["code"] == "LH-3010"
    assert ".leasehold was deleted or moved" in dev.news[-1]["error"]["message"]
    assert "Traceback" not in dev.said
    assert no_process_of(prepared_home)

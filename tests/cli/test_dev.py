"""`leasehold dev` as a process: its output, its reload, and the end of all its processes."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import orjson
import pytest
from tests.cli.dev_process import APP, MAIN, NO_JOBS, Start, ends, enqueue
from tests.conftest import PATIENCE, eventually
from tests.store.bench import LEASE

from leasehold.cli.other_devs import Presence
from leasehold.engines import engine_for
from leasehold.model.definition import Definition
from leasehold.model.job import Source, tenant_id
from leasehold.model.outcome import Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import Store, Subscription, TenantJobs, WorkerFacts

SCHEDULED = """
from leasehold import Job, Leasehold, every

app = Leasehold()

@app.schedule(every("1s"), tenant="acme")
@app.job
async def report(job: Job) -> None: ...
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")


# Output


async def test_people_see_a_checklist_and_then_a_line_for_each_change(
    tmp_path: Path, database_url: str, acme: TenantJobs
) -> None:
    (tmp_path / "app.py").write_text(APP)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", MAIN, "dev", "app.py"],
        cwd=tmp_path,
        env=os.environ | {"LEASEHOLD_URL": database_url, "TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = Screen(ours)
    try:
        await screen.shows("Ctrl-C quits")
        link, token = next(line.split()[2:5:2] for line in screen.lines if "✓ api" in line)
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
            assert (await http.get(f"{link}/me")).json()["role"] == "super_admin"
        job = await enqueue(acme, payload={"number": 7})
        await screen.shows(rf"✓ {job[-8:]} report acme")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        code = await asyncio.to_thread(process.wait, 30)
        await screen.shows("stopped after")
        screen.close()
    assert code == 0
    registered = re.compile(r"\d\d:\d\d:\d\d \+ \w+: registered as version 1")
    lines = [line for line in screen.lines if line and not registered.fullmatch(line)]
    title, database, migrations, api, console, worker, watching, *feed = lines
    assert re.fullmatch(r"  leasehold \S+ · python 3\.\d+ · app\.py → 3 jobs", title)
    assert database.startswith("  ✓ database    postgresql://")
    assert migrations == "  ✓ migrations  up to date"
    assert worker == "  ✓ worker      1 process · 10 slots · wakes by LISTEN"
    assert re.fullmatch(r"  ✓ api         http://127\.0\.0\.1:\d+/api/v1  token lh_\w+", api)
    assert re.fullmatch(r"  ✓ console     http://127\.0\.0\.1:\d+/sign-in\?link=[\w-]{43}", console)
    assert watching == "  watching *.py · Ctrl-C quits"
    short = job[-8:]
    expected = [
        rf"▷ {short} report acme  queued",
        rf"◐ {short} report acme  started after .+",
        rf"│ {short} number 7",
        rf"✓ {short} report acme  .+",
        r"· stopping: .+",
        r"✓ stopped after .+ · 1 succeeded",
    ]
    for line, pattern in zip(feed, expected, strict=True):
        assert re.fullmatch(r"\d\d:\d\d:\d\d " + pattern, line), (line, pattern)


async def test_its_workers_run_the_selected_jobs_only(started: Start, store: Store) -> None:
    dev = started("--json", "--only", "rep*", "--tenants", "acme,globex")
    await dev.is_ready()
    (worker,) = await store.workers()
    assert worker.serves == Subscription(("report",), (tenant_id("acme"), tenant_id("globex")))


class Screen:
    """Returns the text of a terminal, without colours."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = b""
        os.set_blocking(terminal, False)

    @property
    def lines(self) -> list[str]:
        text = re.sub(r"\x1b\[[\d;]*m|\^C", "", self._seen.decode(errors="replace"))
        return text.replace("\r", "").splitlines()

    async def shows(self, pattern: str) -> None:
        async def shown() -> bool:
            try:
                self._seen += os.read(self._terminal, 65536)
            except BlockingIOError:
                pass
            except OSError:  # the other end is closed
                assert re.search(pattern, "\n".join(self.lines)), self.lines
            return re.search(pattern, "\n".join(self.lines)) is not None

        await eventually(shown, what=f"{pattern!r} on the screen")

    def close(self) -> None:
        os.close(self._terminal)


async def test_machines_get_a_job_from_its_enqueue_to_its_end_as_json(started: Start, acme: TenantJobs) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, payload={"number": 3}, created_by="a test")
    await dev.tells("job.ended", job=job, status="succeeded")
    told = [each["event"] for each in dev.news if each.get("job") == job]
    assert told == ["job.queued", "job.started", "job.logged", "job.ended"]
    await dev.stop()
    assert [orjson.loads(line)["event"] for line in dev.said.splitlines()][-1] == "dev.message"
    assert dev.news[-1]["topic"] == "stopped"


async def test_without_a_terminal_there_is_logfmt(started: Start, acme: TenantJobs) -> None:
    dev = started()
    await dev.says("topic=watching")
    job = await enqueue(acme)
    await dev.says("event=job.ended")
    ended = next(line for line in dev.said.splitlines() if "event=job.ended" in line)
    assert f"job={job}" in ended
    assert "status=succeeded" in ended
    await dev.stop()


async def test_a_job_that_waits_for_its_time_is_shown(started: Start, acme: TenantJobs) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, delay=PATIENCE)
    assert (await dev.tells("job.queued", job=job))["state"] == "scheduled"
    await dev.stop()


async def test_schedules_of_the_app_fire(started: Start, acme: TenantJobs, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SCHEDULED)
    dev = started("--json", "--no-reload")
    fired = await dev.tells("job.ended", definition="report", status="succeeded")
    job = await acme.get(fired["job"])
    assert job is not None
    assert job.source is Source.SCHEDULE
    await dev.stop()


async def test_several_workers_share_the_work(started: Start, store: Store) -> None:
    dev = started("--json", "--workers", "2", "--slots", "3")
    await dev.is_ready()
    assert [worker.facts.slots for worker in await store.workers()] == [3, 3]
    assert (await dev.tells("dev.message", topic="worker"))["text"].startswith("2 processes · 3 slots")
    await dev.stop()
    assert await store.workers() == []


async def test_a_job_that_another_worker_runs_is_shown_to_its_end(
    started: Start, store: Store, acme: TenantJobs, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(NO_JOBS)
    dev = started("--json", "--no-reload")
    await store.sync_definitions([Definition("elsewhere")])
    other = await store.join(Subscription(("elsewhere",)), WorkerFacts("host", pid=1), LEASE)
    await dev.is_ready()
    job = await enqueue(acme, "elsewhere")
    (claim,) = (await store.claim(other, 1)).claims
    await dev.tells("job.changed", job=job, state="running", worker=other.worker)
    await store.finish([(claim, decide(Succeeded(), claim, 0))])
    assert (await dev.tells("job.changed", job=job, state="succeeded"))["attempt"] == 1
    await dev.stop()
    await store.leave(other)


async def test_a_second_dev_in_the_folder_is_told_of_when_it_comes_and_goes(started: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NO_JOBS)
    second = Presence(tmp_path)
    dev = started("--json", "--no-reload")
    assert (
        f"another leasehold dev (process {os.getpid()})"
        in (await dev.tells("dev.message", topic="other_dev"))["text"]
    )
    await dev.is_ready()
    second.end()
    await dev.says("the other leasehold dev")
    assert len(dev.told("dev.message", topic="other_dev")) == 2
    await dev.stop()


SHOWN_URLS = {
    "postgresql://ann:secret@db:5433/jobs?password=secret": "postgresql://db:5433/jobs",
    "postgres://db:5433/jobs": "postgres://db:5433/jobs",
    "postgresql://ann:sec@ret@[::1]:5433/jobs": "postgresql://[::1]:5433/jobs",
    "postgresql://ann:secret@/jobs?host=/run/pg&port=5433&password=secret": "postgresql:///jobs?host=/run/pg&port=5433",
    "postgresql:///jobs": "postgresql:///jobs",
}


@pytest.mark.parametrize("url", SHOWN_URLS)
def test_of_a_url_the_place_is_shown_and_no_password(url: str) -> None:
    assert engine_for(url).address == SHOWN_URLS[url]


async def test_a_url_that_can_not_be_used_is_an_error_and_no_traceback(started: Start) -> None:
    dev = started("--json", "--url", "postgresql://localhost:abc/db")
    assert await dev.code() == 2, dev.said
    assert dev.news[-1]["error"]["code"] == "LH-1000"
    assert "Traceback" not in dev.said


async def test_an_app_without_jobs_is_warned_of_until_it_has_some(
    started: Start, acme: TenantJobs, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(NO_JOBS)
    dev = started("--json")
    await dev.is_ready()
    assert "app.py has no jobs: no worker was started." in (await dev.tells("dev.message", topic="no_jobs"))["text"]
    assert await store.workers() == []
    (tmp_path / "app.py").write_text(APP)
    await dev.tells("dev.message", topic="ready")
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()

"""`leasehold dev` as a process: its output, its reload, and the end of all its processes."""

import asyncio
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from tests.conftest import PATIENCE, eventually
from tests.embedded.processes import no_process_of
from tests.store.bench import LEASE
from tests.tenant_kit import ACME
from tests.worker.shop import Process

from leasehold.cli.dev import Options, Supervisor
from leasehold.cli.dev_workers import DevWorkers
from leasehold.cli.format import url_without_secrets
from leasehold.cli.other_devs import Presence
from leasehold.embedded.places import moved_to
from leasehold.engines import engine_for
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.model.outcome import Succeeded, decide
from leasehold.model.status import AttemptStatus, Status
from leasehold.runtime.process import SAME_KEY
from leasehold.store import Store, Subscription, TenantJobs, WorkerFacts

APP = """
import asyncio, os
from pathlib import Path
from leasehold import Job, Leasehold, Steps

app = Leasehold()

@app.job(backoff=Steps(0.05))
async def report(job: Job, number: int = 0) -> str:
    job.log(f"number {number}")
    return "first"

@app.job(backoff=Steps(0.05))
async def wait(job: Job) -> None:
    while not Path("go").exists():
        await asyncio.sleep(0.02)

@app.job(backoff=Steps(0.05))
async def die(job: Job) -> None:
    os._exit(9)
"""
NO_JOBS = "from leasehold import Leasehold\napp = Leasehold()\n"
# Root may read every folder, unless it gives up two capabilities before it starts the program in its arguments.
WITHOUT_PRIVILEGE = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
Start = Callable[..., "Dev"]
MAIN = "from leasehold.cli import main; main()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")


class Dev(Process):
    """`leasehold dev app.py` in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        *options: str,
        prelude: str = "",
        started_by: tuple[str, ...] = (),
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        program = f"import os; os.chdir({str(folder)!r}); {prelude}{MAIN}"
        super().__init__(
            [*started_by, sys.executable, "-c", program, "dev", "app.py", *options],
            kept | environment,
            folder / "log",
        )

    @property
    def news(self) -> list[dict[str, Any]]:
        lines = self.said.splitlines(keepends=True)
        return [orjson.loads(line) for line in lines if line.startswith('{"') and line.endswith("}\n")]

    def told(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        return [each for each in self.news if each.items() >= {"event": event, **fields}.items()]

    async def tells(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first of these, once it is told."""

        async def told() -> bool:
            assert not self.ended or self.told(event, **fields), f"it ended, and said: {self.said}"
            return bool(self.told(event, **fields))

        await eventually(told, 2 * PATIENCE, what=f"{event} {fields}")
        return self.told(event, **fields)[0]

    async def is_ready(self) -> None:
        await self.tells("dev.message", topic="watching")

    async def stop(self) -> None:
        self.send_to_group(signal.SIGINT)
        assert await self.code() == 0, self.said


@pytest.fixture
async def started(tmp_path: Path, database_url: str) -> AsyncIterator[Start]:
    """Starts it on this test's database. A process that it leaves behind fails the test."""
    (tmp_path / "app.py").write_text(APP)
    running: list[Dev] = []

    def start(*options: str, **how: Any) -> Dev:
        running.append(Dev(tmp_path, {"LEASEHOLD_URL": database_url}, *options, **how))
        return running[-1]

    yield start
    left = [pid for dev in running for pid in await dev.clear_up()]
    assert left == [], f"processes were left behind: {left}"


@pytest.fixture
def acme(store: Store) -> TenantJobs:
    return store.tenant(ACME)


async def enqueue(acme: TenantJobs, definition: str = "report", **fields: Any) -> JobId:
    (placed,) = await acme.enqueue([NewJob(definition=definition, **fields)])
    return placed.id


async def ends(acme: TenantJobs, job: JobId) -> JobRecord:
    record = await acme.wait_until_final(job, PATIENCE)
    assert record is not None
    return record


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
    title, database, migrations, worker, watching, *feed = lines
    assert re.fullmatch(r"  leasehold \S+ · python 3\.\d+ · app\.py → 3 jobs", title)
    assert database.startswith("  ✓ database    postgresql://")
    assert migrations == "  ✓ migrations  up to date"
    assert worker == "  ✓ worker      1 process · 10 slots · wakes by LISTEN"
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
    assert url_without_secrets(url) == SHOWN_URLS[url]


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
    await dev.tells("dev.said", topic="ready")
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


# Reload


async def test_changed_code_is_run_without_a_restart_by_hand(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    assert (await ends(acme, await enqueue(acme))).result == "first"
    (tmp_path / "app.py").write_text(APP.replace('"first"', '"second"'))
    assert "app.py changed" in (await dev.tells("dev.said", topic="changed"))["text"]
    await dev.tells("dev.said", topic="ready")
    assert (await ends(acme, await enqueue(acme))).result == "second"
    await dev.stop()


async def test_a_job_that_runs_while_the_code_changes_may_end(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    (tmp_path / "app.py").write_text(APP + "\n")
    await dev.tells("dev.message", topic="changed")
    (tmp_path / "go").touch()
    await dev.tells("dev.said", topic="ready")
    assert (await ends(acme, job)).attempt == 1
    await dev.stop()


async def test_a_folder_that_may_not_be_read_is_named_and_reload_goes_on(started: Start, tmp_path: Path) -> None:
    for name in ("closed", "later"):
        (tmp_path / name).mkdir()
    (tmp_path / "closed").chmod(0)
    (tmp_path / "app.py").write_text("def broken(:")
    try:
        dev = started("--json", started_by=(sys.executable, "-ISc", WITHOUT_PRIVILEGE))
        await dev.tells("dev.message", topic="broken")
        assert str(tmp_path / "closed") in (await dev.tells("dev.message", topic="unreadable"))["text"]
        (tmp_path / "later" / "fresh.py").write_text("")
        assert "fresh.py changed" in (await dev.tells("dev.message", topic="changed"))["text"]
        await dev.stop()
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert len(dev.told("dev.message", topic="unreadable")) == 1
    assert "Traceback" not in dev.said


async def test_broken_code_is_shown_with_its_line_until_it_is_mended(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    (tmp_path / "app.py").write_text("import no_such_module\n" + APP)
    broken = (await dev.tells("dev.message", topic="broken"))["text"]
    assert "No module named 'no_such_module'" in broken
    assert "app.py:1" in broken
    (tmp_path / "app.py").write_text(APP)
    await dev.tells("dev.said", topic="ready")
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


async def test_code_that_is_broken_from_the_start_is_waited_for(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("def broken(:")
    dev = started("--json")
    assert "line 1" in (await dev.tells("dev.message", topic="broken"))["text"]
    (tmp_path / "app.py").write_text(APP)
    await dev.is_ready()
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


async def test_code_that_ends_its_process_when_imported_is_told_of(started: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit(3)")
    dev = started("--json")
    assert "ended its process with 3" in (await dev.tells("dev.message", topic="broken"))["text"]
    await dev.stop()


async def test_without_reload_broken_code_is_an_error(started: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def broken(:")
    dev = started("--json", "--no-reload")
    assert await dev.code() == 2
    assert dev.news[-1]["error"]["code"] == "LH-5001"


async def test_without_watchfiles_it_says_so_and_goes_on(started: Start, acme: TenantJobs) -> None:
    dev = started("--json", prelude="import sys; sys.modules['watchfiles'] = None; ")
    assert "pip install 'leasehold[dev]'" in (await dev.tells("dev.said", topic="watching"))["text"]
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


# Death


async def test_a_worker_that_dies_is_begun_again(started: Start, acme: TenantJobs) -> None:
    dev = started("--json")
    await dev.is_ready()
    await enqueue(acme, "die")
    assert "ended with 9" in (await dev.tells("dev.said", topic="ended"))["text"]
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


async def test_it_ends_with_an_error_when_its_data_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NO_JOBS)
    home = tmp_path / ".leasehold"
    dev = Dev(tmp_path, {}, "--json", "--no-reload")
    try:
        await dev.is_ready()
        place = moved_to(home) or home
        shutil.rmtree(home)
        assert await dev.code() == 7
    finally:
        assert await dev.clear_up() == []
    assert dev.news[-1]["error"]["code"] == "LH-3010"
    assert ".leasehold was deleted or moved" in dev.news[-1]["error"]["message"]
    assert "Traceback" not in dev.said
    assert no_process_of(place)

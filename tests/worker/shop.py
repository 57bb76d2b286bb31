"""The kit of the worker tests: a shop with one tenant, workers in this process, and worker processes.

shop.working(handlers)   a worker in this process, for as long as the block lasts
shop.stores               through which such a worker reaches its store: counts what goes through, lets a test step in
processes.worker(…)      `leasehold worker sample_handlers.py …` as a process of its own

A test that leaves a worker behind fails.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import asyncpg
import pytest
from tests.conftest import PATIENCE, Raw, eventually
from tests.postgres_parts import open_parts
from tests.tenant_kit import HOUR, TenantKit

from leasehold.engines.postgres.database import Database
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.status import Status
from leasehold.store import Store
from leasehold.telemetry import Observer, ignore_events
from leasehold.worker import Handlers, Worker, WorkerSettings
from leasehold.worker.handlers import Call
from leasehold.worker.heartbeat import Leases
from leasehold.worker.lifespan import OpenState
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.schedules import MakeScheduleLoop
from leasehold.worker.session import WorkerSession

SAMPLE_HANDLERS = Path(__file__).parent / "sample_handlers.py"

SHORT = Leases(busy=timedelta(seconds=1.5), idle=timedelta(seconds=3))
# No timer helps: what is not woken hangs, and the test fails.
SETTINGS = WorkerSettings(fallback=HOUR, grace=timedelta(seconds=20))

Payload = dict[str, Any]
AT_ONCE = Steps(0)
QUICKLY = timedelta(milliseconds=100)

Verb = Callable[..., Any]
StepIn = Callable[[Verb], Verb]


async def for_ever() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


def wait_for(event: threading.Event) -> None:
    """Blocks a handler in a thread until the test sets the event."""
    assert event.wait(3 * PATIENCE.total_seconds()), "the test never let its handler go on"


def only(call: Call, key: str = "report", **fields: Any) -> Handlers:
    """Handlers with this one, for jobs of kind `report`."""
    handlers = Handlers()
    handlers.add(Definition(key, **fields))(call)
    return handlers


class WatchedStores:
    """Opens stores for workers: for each session one, and one for its heartbeat.

    calls       how often each verb that somebody stepped in for was called
    statements  the names of all statements, in the order in which they were sent
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stepped_in: list[tuple[str, StepIn]] = []
        self.calls: Counter[str] = Counter()
        self.statements: list[str] = []

    async def __call__(self) -> Store:
        store = await open_parts(self._url)
        self._count_statements(store.database)
        for verb, step_in in self._stepped_in:
            setattr(store, verb, self._counted(verb, step_in(getattr(store, verb))))
        return store

    def step_in(self, verb: str, instead: StepIn) -> None:
        """In the stores opened from now on, `instead(the verb)` is called for the verb."""
        self._stepped_in.append((verb, instead))

    def count(self, verb: str) -> None:
        self.step_in(verb, lambda original: original)

    def _counted(self, verb: str, call: Verb) -> Verb:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[verb] += 1
            return call(*arguments, **named)

        return counted

    def _count_statements(self, database: Database) -> None:
        fetch_on = database.fetch_on

        async def counted(connection: Any, name: str, /, **values: Any) -> list[asyncpg.Record]:
            self.statements.append(name)
            return await fetch_on(connection, name, **values)

        database.fetch_on = counted  # type: ignore[method-assign]


def raising(error: Exception, times: float = 1) -> StepIn:
    """The verb raises, so many times in all."""
    raised = 0

    def step_in(original: Verb) -> Verb:
        async def verb(*arguments: Any, **named: Any) -> Any:
            nonlocal raised
            if raised < times:
                raised += 1
                raise error
            return await original(*arguments, **named)

        return verb

    return step_in


class Workplace(TenantKit):
    """One tenant's jobs, and workers in this process, on any engine. `stores` opens those of a worker."""

    def __init__(self, url: str, store: Store, stores: Callable[[], Awaitable[Store]]) -> None:
        super().__init__(store)
        self.url = url
        self.open_store = stores

    async def ended(self, job: JobId, patience: timedelta = PATIENCE) -> JobRecord:
        record = await self.jobs.wait_until_final(job, patience)
        if record is None:
            pytest.fail(f"the job did not end within {patience}: {await self.job(job)}")
        return record

    async def all_ended(self, jobs: Sequence[JobId]) -> list[JobRecord]:
        return [await self.ended(job) for job in jobs]

    async def waits_again(self, job: JobId, attempt: int = 1) -> JobRecord:
        """The job, once this attempt or a later one is over and it is queued again."""
        seen: list[JobRecord] = []

        async def queued() -> bool:
            seen.append(await self.job(job))
            return seen[-1].status is Status.QUEUED and seen[-1].attempt >= attempt

        await eventually(queued, what=f"attempt {attempt} of {job} to be over and the job to wait again")
        return seen[-1]

    # Workers.

    @asynccontextmanager
    async def working(
        self,
        handlers: Handlers,
        stores: Callable[[], Awaitable[Store]] | None = None,
        tenants: tuple[TenantId, ...] | None = None,
        observe: Observer = ignore_events,
        make_schedules: MakeScheduleLoop | None = None,
        open_state: OpenState | None = None,
        processes: HandlerProcesses | None = None,
        **settings: Any,
    ) -> AsyncIterator[Worker]:
        """A worker that has joined. At the end of the block it stops at once, giving back what still runs."""
        options = replace(SETTINGS, tenants=tenants, **settings)
        worker = Worker(stores or self.open_store, handlers, options, observe, make_schedules, open_state, processes)
        task = asyncio.create_task(worker.run())
        joined = asyncio.create_task(worker.joined.wait())
        try:
            await asyncio.wait([task, joined], return_when=asyncio.FIRST_COMPLETED)
            yield worker
        finally:
            joined.cancel()
            for _ in ("stop", "at once"):
                worker.stop()
            await asyncio.wait([task], timeout=PATIENCE.total_seconds())
            if not task.done():
                task.cancel()
                pytest.fail("the worker did not stop")
        await task


class Shop(Workplace):
    """A workplace on Postgres."""

    def __init__(self, url: str, store: Store, observer: Raw) -> None:
        self.stores = WatchedStores(url)
        super().__init__(url, store, self.stores)
        self.observer = observer

    async def at_rest(self, worker: Worker) -> None:
        """Returns when the worker listens, has settled, and waits for nothing but a wake or its timer."""

        async def resting() -> bool:
            may_be_woken = not worker.state().listens or await self._may_be_woken(worker)
            return may_be_woken and worker.state().at_rest

        await eventually(resting, what="the worker's rest")

    async def _may_be_woken(self, worker: Worker) -> bool:
        return bool(
            await self.observer.fetchval(
                "select bool_and(leasehold.listens(worker_id)) from leasehold.sleepers where worker_id = $1::uuid",
                worker.state().worker,
            )
        )


def session_of(worker: Worker) -> WorkerSession:
    """Returns the session of a worker that has joined, for tests that interfere with one of its stages."""
    assert worker.session is not None
    return worker.session


@contextmanager
def all_heartbeats_end() -> Iterator[None]:
    """Fails if a worker that began in the block still beats after it. Others may: the console's tests share one."""
    before = _heartbeats()
    yield
    assert _heartbeats() <= before, "a worker was left behind: its heartbeat still beats"


def _heartbeats() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "leasehold-heartbeat"}


# ------------------------------------------------------------------------------------------------ worker processes


@dataclass(frozen=True)
class Note:
    """A note that a handler wrote down: see sample_handlers.py."""

    what: str
    job: JobId
    attempt: int
    pid: int


class Process:
    """A process that a test started, at the head of a group of its own, so that none of its children can hide."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, env=environment, stdout=file, stderr=file, start_new_session=True, cwd=folder
            )
        self.pid = self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    async def code(self) -> int:
        """Its exit code, once it has ended."""

        async def ended() -> bool:
            return self.ended

        await eventually(ended, what=f"the end of process {self.pid}, which said:\n{self.said}\nThis")
        return int(self._process.returncode)

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def says(self, text: str) -> None:
        async def said() -> bool:
            return text in self.said

        await eventually(said, what=f"{text!r} in what the process says")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """As Ctrl-C in a terminal and systemd do it."""
        os.killpg(self.pid, number)

    def family(self) -> list[int]:
        """Every living process of its group, itself included."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        return [int(pid) for pid, group, state in rows if int(group) == self.pid and not state.startswith("Z")]

    def children(self) -> list[int]:
        return [pid for pid in self.family() if pid != self.pid]

    async def clear_up(self) -> list[int]:
        """Ends it, if it has not ended; what it then leaves behind is ended too, and returned."""
        if self._process.poll() is None:
            self.send(signal.SIGKILL) if not self.children() else self.send(signal.SIGTERM)
            await self.code()
        left = self.family()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left


class Processes:
    """Worker processes of a test, the notes of their handlers, and a sign that handlers wait for."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self.folder = folder
        self._started: list[Process] = []

    def worker(self, *options: str, handlers: Path = SAMPLE_HANDLERS, **settings: str) -> Process:
        """`leasehold worker sample_handlers.py` with these options and settings, as people type it."""
        words = ("-c", "from leasehold.cli import main; main()", "worker", str(handlers), *options)
        return self.python(*words, **settings)

    def python(self, *arguments: str, **settings: str) -> Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        environment |= {"LEASEHOLD_URL": self._url} | settings
        log = self.folder / f"process-{len(self._started)}.log"
        process = Process([sys.executable, *arguments], environment, log)
        self._started.append(process)
        return process

    @property
    def payload(self) -> dict[str, Any]:
        return {"folder": str(self.folder)}

    def notes(self, what: str) -> list[Note]:
        file = self.folder / "notes"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        rows = [line.split() for line in lines if line.endswith("\n")]  # a reader may see half of a line under way
        return [Note(word, JobId(job), int(attempt), int(pid)) for word, job, attempt, pid in rows if word == what]

    async def noted(self, what: str, count: int = 1) -> list[Note]:
        """The notes, once there are so many."""

        async def enough() -> bool:
            return len(self.notes(what)) >= count

        await eventually(enough, what=f"{count} notes of {what!r} (workers said: {self._said()})")
        return self.notes(what)

    def go(self) -> None:
        """Chores that wait go on."""
        (self.folder / "go").touch()

    async def clear_up(self) -> None:
        left = [pid for process in self._started for pid in await process.clear_up()]
        if left:
            pytest.fail(f"processes were left behind: {left}; their worker said: {self._said()}")

    def _said(self) -> str:
        return "\n".join(process.said for process in self._started)

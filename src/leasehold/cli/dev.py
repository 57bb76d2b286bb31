"""`leasehold dev`: database, migrations, workers and reload on one machine, for development."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from random import uniform
from time import monotonic
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson
import typer

from leasehold import embedded
from leasehold.cli import documents
from leasehold.cli.crew import Crew
from leasehold.cli.feed import DevSaid, Feed, Lines, News, Topic, WorkerKilled, logfmt
from leasehold.cli.options import Schema, Url
from leasehold.cli.output import explained, shown
from leasehold.cli.target import ended_when_imported, load_app
from leasehold.cli.words import counted, span, utc_now
from leasehold.cli.worker import Slots, Target, command_line
from leasehold.config import VERSION
from leasehold.engines import open_store, prepare_store, require_usable_url
from leasehold.errors import CannotLoad, LeaseholdError
from leasehold.model.status import Status
from leasehold.store import Filter, Store
from leasehold.telemetry import Event, JobEnded, JobGivenBack, JobReclaimed
from leasehold.worker.process import SAME_SIGNAL, STOP_SIGNALS, end_with_stdin
from leasehold.worker.tasks import canceled, first_of, kept

T = TypeVar("T")

GRACE, LEASE, LEASE_IN_CHAOS = 5, 5, 3
BETWEEN_KILLS = (3.0, 10.0)
LOOK_EVERY = 1.0
MOST_SEEN = 200
# A transaction that was open for long shows its jobs when it ends, as old as they are by then.
LOOK_BACK = timedelta(minutes=1)


def dev(
    target: Target,
    workers: Annotated[
        int | None, typer.Option(help="How many worker processes. Default: 1, with --chaos 2.", min=1)
    ] = None,
    slots: Slots = 10,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill a worker now and then, to see jobs survive it.")
    ] = False,
    no_reload: Annotated[bool, typer.Option("--no-reload", help="Don't restart workers when code changes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="What happens, one JSON object per line on stdout.")] = False,
    url: Url = None,
    schema: Schema = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Run everything on this machine, for development.

    Database, migrations, workers, reload, and what happens.
    """
    if until_stdin_ends:
        end_with_stdin()
    with explained(json):
        options = Options(target, workers or (2 if chaos else 1), slots, chaos, not no_reload, url, schema)
        asyncio.run(Supervisor(options, _display(json)).run())


@dataclass(frozen=True, slots=True)
class Options:
    target: str
    workers: int
    slots: int
    chaos: bool
    reload: bool
    url: str | None
    schema: str | None

    @property
    def folder(self) -> Path:
        """Whose code it is."""
        place = self.target.partition(":")[0]
        return Path(place).parent if place.endswith(".py") else Path()

    def worker_command(self) -> list[str]:
        lease = LEASE_IN_CHAOS if self.chaos else LEASE
        said_here = {"--url": self.url, "--schema": self.schema}
        return command_line(
            *("worker", self.target, "--json", "--until-stdin-ends"),
            *("--slots", str(self.slots), "--grace", f"{GRACE}s", "--lease", f"{lease}s"),
            *(word for name, value in said_here.items() if value for word in (name, value)),
        )


@dataclass(frozen=True, slots=True)
class App:
    """What the target holds, and where its code says that the database is."""

    definitions: list[str]
    url: str | None
    schema: str
    home: str


class Supervisor:
    """Starts what is missing, shows what happens, and leaves nothing behind."""

    def __init__(self, options: Options, display: Callable[[News], None]) -> None:
        self._options = options
        self._display = display
        self._feed = Feed()
        self._tally: Counter[str] = Counter()
        self._began = monotonic()
        self._crew: Crew | None = None
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._told_at = float("-inf")

    async def run(self) -> None:
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._told_to_stop)
        async with _alongside(watching=self._watch):
            if app := await self._importable_app():
                self._say(Topic.APP, self._title(app))
                async with self._database(app) as url, self._store(url, app) as store:
                    await self._serve(app, store, dict(os.environ, LEASEHOLD_URL=url))
        self._say(Topic.STOPPED, self._result())

    async def _serve(self, app: App, store: Store, environment: Mapping[str, str]) -> None:
        newest = (await store.everywhere(Filter(), None, MOST_SEEN)).jobs
        self._feed.know(newest)
        async with _alongside(looking=partial(self._look, store), chaos=self._kill_now_and_then):
            try:
                await self._start_crew(app, environment, Topic.WORKER)
                self._say(Topic.WATCHING, self._how_to_go_on())
                while changed := await self._changed_app():
                    await self._start_crew(changed, environment, Topic.READY)
            finally:
                if self._crew:
                    await self._crew.stop()

    # --------------------------------------------------------------------------------------------------- the parts

    async def _importable_app(self) -> App | None:
        """The target, once it can be imported; None if we are told to stop before."""
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                if app := await self._unless_interrupted(_described(self._options.target)):
                    return app
            except LeaseholdError as error:
                if not self._watches:
                    raise
                self._say(Topic.BROKEN, f"{error} Waiting for a change.")
                await first_of(self._changed.wait(), self._stopping.wait())
        return None

    @asynccontextmanager
    async def _database(self, app: App) -> AsyncIterator[str]:
        if url := self._options.url or app.url:
            require_usable_url(url)
            self._say(Topic.DATABASE, _without_secrets(url))
            yield url
            return
        server = await asyncio.to_thread(embedded.start, app.home)
        try:
            self._say(Topic.DATABASE, f"PostgreSQL {server.version}, started for you, data in {app.home}/")
            yield server.url
        finally:
            await asyncio.to_thread(server.stop)

    @asynccontextmanager
    async def _store(self, url: str, app: App) -> AsyncIterator[Store]:
        schema = self._options.schema or app.schema
        applied = await prepare_store(url, schema)
        self._say(Topic.MIGRATIONS, f"applied {', '.join(applied)}" if applied else "up to date")
        store = await open_store(url, schema)
        try:
            yield store
        finally:
            await store.close()

    async def _start_crew(self, app: App, environment: Mapping[str, str], topic: Topic) -> None:
        if not app.definitions:
            self._say(Topic.NO_JOBS, _no_jobs(self._options.target))
            return
        size = self._options.workers
        self._crew = Crew(self._options.worker_command(), environment, size, self._hear, self._say)
        if joined := await self._unless_interrupted(self._crew.start()):
            processes = f"{size} process" if size == 1 else f"{size} processes"
            wakes = "wakes by LISTEN" if joined.listens else "polling"
            ready = "ready: " if topic is Topic.READY else ""
            self._say(topic, f"{ready}{processes} · {counted(joined.slots, 'slot')} · {wakes}")

    async def _changed_app(self) -> App | None:
        """Waits for a change, ends the crew, and waits for a change that can be imported; None: told to stop."""
        await first_of(self._changed.wait(), self._stopping.wait())
        if self._crew:
            await self._crew.stop()
        return await self._importable_app()

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None: the code has changed meanwhile, or we are told to stop."""
        task = asyncio.create_task(work)
        await first_of(task, self._changed.wait(), self._stopping.wait())
        return None if task.cancelled() else task.result()

    # --------------------------------------------------------------------------------------------------- meanwhile

    async def _watch(self) -> None:
        if self._watches:
            async for paths in _changes(self._options.folder):
                self._say(Topic.CHANGED, f"{paths} changed; running jobs have {GRACE} s to end")
                self._changed.set()

    async def _look(self, store: Store) -> None:
        """Who enqueues tells no worker what: only the database knows of jobs that wait."""
        since: datetime | None = None
        while True:
            page = await store.everywhere(Filter(created_after=since), None, MOST_SEEN)
            self._show(self._feed.seen(page.jobs))
            if page.jobs:
                since = max(job.queued_at for job in page.jobs) - LOOK_BACK
            await asyncio.sleep(LOOK_EVERY)

    async def _kill_now_and_then(self) -> None:
        while self._options.chaos:
            await asyncio.sleep(uniform(*BETWEEN_KILLS))
            if killed := self._crew and self._crew.kill_one():
                self._tally["killed"] += 1
                self._show([WorkerKilled(at=utc_now(), pid=killed[0], running=killed[1])])

    def _hear(self, event: Event) -> None:
        match event:
            case JobEnded() if event.status.final:
                self._tally[event.status] += 1
            case JobReclaimed() | JobGivenBack():
                self._tally[event.event] += 1
        self._show(self._feed.heard(event))

    def _told_to_stop(self) -> None:
        """A second time, the grace is over; but what comes so soon is no second time, as for workers."""
        if not self._stopping.is_set():
            self._say(Topic.STOPPING, f"stopping: running jobs have {GRACE} s to end, Ctrl-C gives them back at once")
            self._told_at = monotonic()
        elif self._crew and monotonic() - self._told_at > SAME_SIGNAL:
            self._crew.tell_to_stop()
        self._stopping.set()

    # ------------------------------------------------------------------------------------------------------- words

    @cached_property
    def _watches(self) -> bool:
        return self._options.reload and find_spec("watchfiles") is not None

    def _say(self, topic: Topic, text: str) -> None:
        self._show([DevSaid(at=utc_now(), topic=topic, text=text)])

    def _show(self, news: Iterable[News]) -> None:
        try:
            for each in news:
                self._display(each)
        except BrokenPipeError:  # nobody reads us any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            self._stopping.set()

    def _title(self, app: App) -> str:
        python = f"python {sys.version_info.major}.{sys.version_info.minor}"
        jobs = counted(len(app.definitions), "job")
        return f"leasehold {VERSION} · {python} · {self._options.target} → {jobs}"

    def _how_to_go_on(self) -> str:
        if self._options.reload and not self._watches:
            return "no reload: watchfiles is not installed (pip install 'leasehold[dev]') · Ctrl-C quits"
        return "watching *.py · Ctrl-C quits" if self._watches else "Ctrl-C quits"

    def _result(self) -> str:
        parts = [f"{self._tally[key]:,} {word}" for key, word in _TALLIED.items() if self._tally[key]]
        return " · ".join([f"stopped after {span(timedelta(seconds=monotonic() - self._began))}", *parts])


_TALLIED = {
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.DEAD_LETTER: "dead letter",
    Status.CANCELED: "canceled",
    "job.given_back": "given back",
    "job.reclaimed": "reclaimed",
    "killed": "workers killed",
}


def _display(json: bool) -> Callable[[News], None]:
    if json:
        return lambda news: _print(news.as_json())
    if not shown.is_terminal:
        return lambda news: _print(logfmt(news))
    lines = Lines(shown.width)

    def show(news: News) -> None:
        if (line := lines.of(news)) is not None:
            shown.print(line, soft_wrap=True)

    return show


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    place = [(name, value) for name, value in parse_qsl(parts.query) if name in ("host", "port")]
    shown = urlencode(place, safe="/:,")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" + (f"?{shown}" if shown else "")


def _no_jobs(target: str) -> str:
    return (
        f"{target} has no jobs: no worker was started. Write @app.job above a function, in it or in what it imports."
    )


@asynccontextmanager
async def _alongside(**works: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    tasks = [kept(name, work, lost=lambda _: None) for name, work in works.items()]
    try:
        yield
    finally:
        await canceled(tasks)


async def _changes(folder: Path) -> AsyncIterator[str]:
    from watchfiles import PythonFilter, awatch

    class Sources(PythonFilter):
        ignore_dirs = (*PythonFilter.ignore_dirs, ".leasehold")

    async for changes in awatch(folder, watch_filter=Sources()):
        names = sorted({Path(path).name for _, path in changes})
        yield ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# What a target holds is found out in a process of its own: here its modules would stay loaded, old as they are.


async def _described(target: str) -> App:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import sys; from leasehold.cli.dev import describe; describe(sys.argv[1])", target),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        answer = await process.stdout.read()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not answer:
        raise ended_when_imported(target, code)
    told = orjson.loads(answer)
    if error := told.get("error"):
        raise CannotLoad(error["message"], fix=error["fix"], code=error["code"])
    return App(**told)


def describe(target: str) -> None:
    """Prints an App as JSON, or why there is none. What the target itself prints goes to stderr."""
    end_with_stdin()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        app = load_app(target)
        settings = app.settings
        told = asdict(App(list(app.handlers.keys), settings.url, settings.schema, str(settings.home)))
    except LeaseholdError as error:
        told = documents.error(error)
    answer.write(orjson.dumps(told))
    answer.close()

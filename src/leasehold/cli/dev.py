"""`leasehold dev`: database, migrations, workers and reload on one machine, for development."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from random import uniform
from time import monotonic
from typing import Annotated, Any, TypeVar

import typer

from leasehold import embedded
from leasehold.cli.app_description import App, describe_app
from leasehold.cli.dev_api import DevLinks, dev_api
from leasehold.cli.dev_events import Topic
from leasehold.cli.dev_screen import DevScreen, Display, make_display
from leasehold.cli.dev_workers import DevWorkers
from leasehold.cli.format import utc_now
from leasehold.cli.options import Commands, Except, Only, Schema, Selection, Tenants, Url, read_selection
from leasehold.cli.other_devs import Presence
from leasehold.cli.output import explain_errors
from leasehold.cli.sources import changed_files
from leasehold.cli.target import require_target
from leasehold.cli.worker import Slots, Target, command_line
from leasehold.config import VERSION, Settings
from leasehold.engines import engine_for, start_local
from leasehold.errors import EmbeddedError, InvalidInput, LeaseholdError
from leasehold.operations.statuses import INTERRUPTED
from leasehold.operations.views import format_count
from leasehold.runtime.process import STOP_SIGNALS, StopRequests, end_with_stdin
from leasehold.runtime.supervise import cancel_all, keep_running, wait_for_first
from leasehold.store import Filter, Store

T = TypeVar("T")

POSTGRES = "postgres"
GRACE, LEASE, LEASE_IN_CHAOS = 5, 5, 3
BETWEEN_KILLS = (3.0, 10.0)
LOOK_EVERY = 1.0
LOOK_AT_HOME_EVERY = 0.5
MOST_SEEN = 200
SHOWN_FOLDERS = 3
# Jobs of a long transaction become visible when it ends, and are old by then.
LOOK_BACK = timedelta(minutes=1)


def dev(
    target: Target = None,
    commands: Commands = None,
    workers: Annotated[
        int | None, typer.Option(help="How many worker processes. Default: 1, with --chaos 2.", min=1)
    ] = None,
    slots: Slots = 10,
    only: Only = None,
    exclude: Except = None,
    tenants: Tenants = None,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill a worker now and then, to see jobs survive it.")
    ] = False,
    no_reload: Annotated[bool, typer.Option("--no-reload", help="Don't restart workers when code changes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Events, one JSON object per line on stdout.")] = False,
    engine: Annotated[
        str, typer.Option(help="The database to start: postgres, or dynamodb, an emulator of it.")
    ] = POSTGRES,
    url: Url = None,
    schema: Schema = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Run everything on this machine, for development.

    Database, migrations, workers, reload, and what happens.
    """
    if until_stdin_ends:
        end_with_stdin()
    with explain_errors(json):
        require_target(target, commands)
        size = workers or (2 if chaos else 1)
        selection = read_selection(only, exclude, tenants)
        options = Options(target, size, slots, chaos, not no_reload, url, schema, commands, selection, engine)
        asyncio.run(Supervisor(options, make_display(json)).run())


@dataclass(frozen=True, slots=True)
class Options:
    target: str | None
    workers: int
    slots: int
    chaos: bool
    reload: bool
    url: str | None
    schema: str | None
    commands: Path | None = None
    selection: Selection = field(default_factory=read_selection)
    engine: str = "postgres"

    @property
    def name(self) -> str:
        return " and ".join(str(each) for each in (self.target, self.commands) if each)

    @property
    def folder(self) -> Path:
        """The folder of the app's code, or of its commands."""
        place = (self.target or str(self.commands)).partition(":")[0]
        return Path(place).parent if place.endswith((".py", ".toml")) else Path()

    @property
    def watched(self) -> str:
        return "*.py" if self.commands is None else f"*.py and {self.commands.name}"

    def worker_command(self) -> list[str]:
        lease = LEASE_IN_CHAOS if self.chaos else LEASE
        given = {
            "--url": self.url,
            "--schema": self.schema,
            "--commands": str(self.commands or ""),
            "--only": ",".join(self.selection["only"]),
            "--except": ",".join(self.selection["exclude"]),
            "--tenants": ",".join(self.selection["tenants"] or ()),
        }
        return command_line(
            *("worker", *([self.target] if self.target else ()), "--json", "--until-stdin-ends"),
            *("--slots", str(self.slots), "--grace", f"{GRACE}s", "--lease", f"{lease}s"),
            *(word for name, value in given.items() if value for word in (name, value)),
        )


class Supervisor:
    """Starts database and workers, shows events, and ends every process that it started."""

    def __init__(self, options: Options, display: Display) -> None:
        self._options = options
        self._stopping = asyncio.Event()
        self._screen = DevScreen(display, on_closed=self._stopping.set)
        self._workers: DevWorkers | None = None
        self._changed = asyncio.Event()
        self._stops = StopRequests()
        self._presence = Presence(options.folder)
        self._failure: LeaseholdError | None = None

    async def run(self) -> None:
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._request_stop, number)
        try:
            async with self._alongside(watching=self._watch):
                if app := await self._wait_for_app():
                    self._screen.say(Topic.APP, _title(self._options.name, app))
                    self._say_which_others_run()
                    async with self._database(app) as url, self._store(url, app) as store:
                        schema = self._options.schema or app.schema
                        async with dev_api(url, schema, store) as links:
                            await self._serve(app, store, dict(os.environ, LEASEHOLD_URL=url), links)
        finally:
            self._presence.end()
        if self._failure:
            raise self._failure
        self._screen.say_totals()

    async def _serve(self, app: App, store: Store, environment: Mapping[str, str], links: DevLinks | None) -> None:
        newest = (await store.find_all_tenants(Filter(), None, MOST_SEEN)).jobs
        self._screen.feed.remember(newest)
        async with self._alongside(looking=partial(self._look, store), chaos=self._kill_now_and_then):
            try:
                if links is not None:
                    self._screen.say(Topic.API, links.api)
                    if links.console is not None:
                        self._screen.say(Topic.CONSOLE, links.console)
                await self._start_workers(app, store, environment, Topic.WORKER)
                if not self._stopping.is_set():
                    self._screen.say(Topic.WATCHING, self._how_to_go_on())
                while changed := await self._wait_for_changed_app():
                    await self._start_workers(changed, store, environment, Topic.READY)
            finally:
                if self._workers:
                    await self._workers.stop()

    # --------------------------------------------------------------------------------------------------- the parts

    async def _wait_for_app(self) -> App | None:
        """Returns the app once the target can be imported; None after a stop request."""
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                if app := await self._unless_interrupted(describe_app(self._options.target, self._options.commands)):
                    return app
            except LeaseholdError as error:
                if not self._watches:
                    raise
                self._screen.say(Topic.BROKEN, f"{error} Waiting for a change.")
                await wait_for_first(self._changed.wait(), self._stopping.wait())
        return None

    @asynccontextmanager
    async def _database(self, app: App) -> AsyncIterator[str]:
        if url := self._options.url or app.url:
            self._require_no_engine(url)
            self._screen.say(Topic.DATABASE, engine_for(url).address)
            yield url
            return
        if self._options.engine != POSTGRES:
            async with self._local_server(app) as url:
                yield url
            return
        Settings.from_environment().require_embedded()
        server = await asyncio.to_thread(embedded.start, app.home)
        try:
            self._screen.say(Topic.DATABASE, f"PostgreSQL {server.version}, started for you, data in {app.home}/")
            async with self._alongside(home=partial(self._watch_home, server, app.home)):
                yield server.url
        finally:
            await asyncio.to_thread(server.stop)

    def _require_no_engine(self, url: str) -> None:
        if self._options.engine != POSTGRES:
            raise InvalidInput(
                f"--engine {self._options.engine} asks for a database of this folder, and the app's is "
                f"{engine_for(url).address}.",
                fix="Nothing was started. Leave out --engine, or the URL: unset LEASEHOLD_URL, and --url.",
            )

    @asynccontextmanager
    async def _local_server(self, app: App) -> AsyncIterator[str]:
        server = await asyncio.to_thread(start_local, self._options.engine, Path(app.home))
        try:
            self._screen.say(Topic.DATABASE, server.description)
            yield server.url
        finally:
            await asyncio.to_thread(server.stop)

    @asynccontextmanager
    async def _store(self, url: str, app: App) -> AsyncIterator[Store]:
        schema = self._options.schema or app.schema
        engine = engine_for(url, schema)
        applied = await engine.prepare()
        self._screen.say(Topic.MIGRATIONS, f"applied {', '.join(applied)}" if applied else "up to date")
        store = await engine.open()
        try:
            yield store
        finally:
            await store.close()

    async def _start_workers(self, app: App, store: Store, environment: Mapping[str, str], topic: Topic) -> None:
        if not app.definitions:
            self._screen.say(Topic.NO_JOBS, _no_jobs(self._options.name))
            return
        size, screen = self._options.workers, self._screen
        self._workers = DevWorkers(self._options.worker_command(), environment, size, screen.show_event, screen.say)
        if joined := await self._unless_interrupted(self._workers.start()):
            processes = f"{size} process" if size == 1 else f"{size} processes"
            wakes = "wakes by LISTEN" if joined.listens and store.abilities.wakes else "polling"
            ready = "ready: " if topic is Topic.READY else ""
            self._screen.say(topic, f"{ready}{processes} · {format_count(joined.slots, 'slot')} · {wakes}")

    async def _wait_for_changed_app(self) -> App | None:
        """Waits for a change, ends the workers, and waits for an importable target; None after a stop request."""
        await wait_for_first(self._changed.wait(), self._stopping.wait())
        if self._workers:
            await self._workers.stop()
        return await self._wait_for_app()

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Returns None if the code has changed meanwhile, or after a stop request."""
        task = asyncio.create_task(work)
        await wait_for_first(task, self._changed.wait(), self._stopping.wait())
        return None if task.cancelled() else task.result()

    # --------------------------------------------------------------------------------------------------- meanwhile

    async def _watch(self) -> None:
        if not self._watches:
            return
        try:
            async for paths in changed_files(self._options.folder, self._warn_of_unreadable, self._options.commands):
                self._screen.say(Topic.CHANGED, f"{_names(paths)} changed; running jobs have {GRACE} s to end")
                self._changed.set()
        except OSError as error:  # the system's limit of watches, mostly
            reload_is_off = "Changed code is not reloaded from now on; start leasehold dev again after each change."
            self._screen.say(Topic.UNREADABLE, f"the code can't be watched: {error}. {reload_is_off}")

    async def _watch_home(self, server: embedded.Server, home: str) -> None:
        """Ends everything if the data of the embedded Postgres were deleted: workers would wait for it for ever."""
        while True:
            await asyncio.sleep(LOOK_AT_HOME_EVERY)
            if server.was_taken_away():
                break
        self._failure = EmbeddedError(
            f"{home} was deleted or moved while leasehold dev ran: its embedded Postgres has ended, and the jobs in "
            "it are gone with the folder.",
            fix="Start leasehold dev again: it begins with an empty database. To empty the database, stop leasehold "
            "dev first, then delete the folder.",
        )
        if self._workers:
            self._workers.kill()
        self._stopping.set()

    async def _look(self, store: Store) -> None:
        """Reads new jobs and changes by other workers from the database, which alone knows of them.

        Takes one statement a second, and one more for each tenant with an older job that is due and not over.
        """
        since: datetime | None = None
        while True:
            self._say_which_others_run()
            page = await store.find_all_tenants(Filter(created_after=since), None, MOST_SEEN)
            self._screen.show_jobs(page.jobs)
            if page.jobs:
                since = max(job.queued_at for job in page.jobs) - LOOK_BACK
            for tenant, jobs in self._screen.feed.open_jobs(utc_now(), besides=page.jobs, most=MOST_SEEN).items():
                found = await store.tenant(tenant).get_many(jobs)
                self._screen.feed.forget(tenant, set(jobs) - {job.id for job in found})
                self._screen.show_jobs(found)
            await asyncio.sleep(LOOK_EVERY)

    def _say_which_others_run(self) -> None:
        come, gone = self._presence.changes()
        for pid in sorted(come):
            self._screen.say(
                Topic.OTHER_DEV,
                f"another leasehold dev (process {pid}) runs in this folder: jobs of one database are run by either, "
                "and changed code is reloaded by both. Stop one of them unless you want two.",
            )
        for pid in sorted(gone):
            self._screen.say(Topic.OTHER_DEV, f"the other leasehold dev (process {pid}) has ended")

    def _warn_of_unreadable(self, folders: Sequence[str]) -> None:
        shown = ", ".join(folders[:SHOWN_FOLDERS])
        more = f" and {len(folders) - SHOWN_FOLDERS} more" if len(folders) > SHOWN_FOLDERS else ""
        self._screen.say(
            Topic.UNREADABLE, f"not watched, since it may not be read: {shown}{more}. The rest is watched."
        )

    async def _kill_now_and_then(self) -> None:
        while self._options.chaos:
            await asyncio.sleep(uniform(*BETWEEN_KILLS))
            if killed := self._workers and self._workers.kill_one():
                self._screen.show_kill(*killed)

    def _request_stop(self, number: int) -> None:
        """Ends the grace at the second request; ends the process at the third, or if no worker is left."""
        if not self._stops.add(number, monotonic()):
            return
        if self._stops.count == 1:
            self._screen.say(
                Topic.STOPPING, f"stopping: running jobs have {GRACE} s to end, Ctrl-C gives them back at once"
            )
        elif self._stops.count == 2 and self._workers and self._workers.is_alive:
            self._screen.say(Topic.STOPPING, "running jobs are given back now")
            self._workers.tell_to_stop()
        else:
            self._end_now()
        self._stopping.set()

    def _end_now(self) -> None:
        """Ends without waiting for anything. An embedded Postgres notices, and ends by itself."""
        if self._workers:
            self._workers.kill()
        os._exit(INTERRUPTED)

    @asynccontextmanager
    async def _alongside(self, **works: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
        died = self._screen.say_failure
        tasks = [keep_running(name, work, lost=lambda _: None, died=died) for name, work in works.items()]
        try:
            yield
        finally:
            await cancel_all(tasks)

    @cached_property
    def _watches(self) -> bool:
        return self._options.reload and find_spec("watchfiles") is not None

    def _how_to_go_on(self) -> str:
        if self._options.reload and not self._watches:
            return "no reload: watchfiles is not installed (pip install 'leasehold[dev]') · Ctrl-C quits"
        return f"watching {self._options.watched} · Ctrl-C quits" if self._watches else "Ctrl-C quits"


def _title(target: str, app: App) -> str:
    python = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return f"leasehold {VERSION} · {python} · {target} → {format_count(len(app.definitions), 'job')}"


def _no_jobs(target: str) -> str:
    return (
        f"{target} has no jobs: no worker was started. Write @app.job above a function, in it or in what it imports."
    )


def _names(paths: Iterable[str]) -> str:
    names = sorted({Path(path).name for path in paths})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

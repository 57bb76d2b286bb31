"""Where measures are taken: a database of its own for each, workers and producers around it, and what it all cost."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import asyncpg

from bench import processor
from bench.book import Book, Costs
from bench.children import Child, Crew, started
from bench.server import Counters, Server
from bench.sizes import Sizes
from bench.systems import OURS, CannotMeasure, System
from bench.tape import Tape

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

INSTALLING = 60.0
# Room on a tape for jobs that are run twice.
SOME_MORE = 1_000
# Sessions report their commits once a second, with the next one: a pause and a few more jobs, and all are counted.
COUNTED, FEW = 1.1, 5


@dataclass
class Place:
    """One database, for one system. `observer` is a connection of the harness's own; its statements are counted."""

    name: str
    url: str
    system: System
    observer: "Connection"
    asked: int = 0

    async def unfinished(self) -> int:
        self.asked += 1
        left: int = await self.observer.fetchval(self.system.unfinished)
        return left

    async def counted(self) -> None:
        """Has the observer's own commits counted now, not when it ends. Before Postgres 15 they count at once."""
        if self.observer.get_server_version().major >= 15:
            await self.observer.execute("select pg_stat_force_next_flush()")
            self.asked += 1


@dataclass
class Stage:
    server: Server
    sizes: Sizes
    book: Book
    systems: dict[str, System]
    say: Callable[[str], None]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="leasehold-bench-")))
    _kept: AsyncExitStack = field(default_factory=AsyncExitStack)
    _templates: dict[str, str] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    @asynccontextmanager
    async def attempt(self, measure: str, system: str) -> AsyncIterator[None]:
        """Whatever goes wrong is written down, and the run goes on with the next."""
        self.say(f"{measure}: {system}")
        try:
            yield
        except CannotMeasure as failure:
            self.book.failed(measure, system, str(failure))
        except Exception as failure:
            self.book.failed(measure, system, f"{type(failure).__name__}: {failure}")

    @property
    def ours(self) -> System:
        return self.systems[OURS]

    # -------------------------------------------------------------------------------------------------- databases

    @asynccontextmanager
    async def place(self, system: System) -> AsyncIterator[Place]:
        """A fresh database with the system's tables; dropped afterwards."""
        name = f"bench_{self.server.run}_{next(self._numbers)}"
        url = await self.server.create(name, await self._template(system))
        observer = await asyncpg.connect(url)
        try:
            yield Place(name, url, system, observer)
        finally:
            await observer.close()
            await self.server.drop(name)

    async def kept(self, place: AbstractAsyncContextManager[Place]) -> Place:
        """A place that stays for further rounds."""
        return await self._kept.enter_async_context(place)

    async def _template(self, system: System) -> str:
        if system.name not in self._templates:
            name = f"bench_{self.server.run}_{system.name}"
            url = await self.server.create(name)
            async with started(system.command("install", url), self._log(system, "install")) as installer:
                await installer.end(INSTALLING)
            self._templates[system.name] = name
        return self._templates[system.name]

    # -------------------------------------------------------------------------------------------------- processes

    @asynccontextmanager
    async def producing(self, place: Place, **how: Any) -> AsyncIterator[Child]:
        async with self.all_producing(place, 1, **how) as (producer,):
            yield producer

    @asynccontextmanager
    async def all_producing(self, place: Place, producers: int, **how: Any) -> AsyncIterator[Sequence[Child]]:
        async with AsyncExitStack() as stack:
            command = place.system.command("produce", place.url, json.dumps(how))
            children = [
                await stack.enter_async_context(started(command, self._log(place.system, "produce"), answers=True))
                for _ in range(producers)
            ]
            for child in children:
                await child.answer(INSTALLING)
            yield children

    @asynccontextmanager
    async def working(self, place: Place, jobs: int, processes: int = 1, **how: Any) -> AsyncIterator[Crew]:
        """Workers that will start about so many jobs each."""
        async with AsyncExitStack() as stack:
            children: list[Child] = []
            tapes: list[Tape] = []
            for _ in range(processes):
                path = self.folder / f"tape-{next(self._numbers)}"
                tapes.append(Tape.blank(path, jobs + SOME_MORE))
                stack.callback(path.unlink)
                command = place.system.command("work", place.url, str(path), json.dumps(how))
                children.append(await stack.enter_async_context(started(command, self._log(place.system, "work"))))
            yield Crew(children, tapes)

    def _log(self, system: System, part: str) -> Path:
        return self.folder / f"{system.name}-{part}-{next(self._numbers)}.log"

    async def close(self) -> None:
        await self._kept.aclose()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------------------------------------------ costs

    async def fill(self, place: Place, jobs: int, call: int = 200) -> None:
        """Enqueues jobs of a hundred tenants by the system's own bulk."""
        async with self.producing(place) as producer:
            await producer.ask(self.sizes.limit, do="many", count=jobs, call=call)
        await self.settle(place)

    async def settle(self, place: Place) -> None:
        """Vacuums, analyzes and checkpoints the filled tables."""
        await place.observer.execute("vacuum analyze")
        await place.counted()
        await self.server.checkpoint()

    async def begin(self, place: Place, pids: Sequence[int]) -> "Reading":
        used = processor.used_by(pids)
        return Reading(self, place, pids, used, await self.server.counters(place.name), place.asked)


@dataclass
class Reading:
    """Counters at the beginning of a measure."""

    stage: Stage
    place: Place
    pids: Sequence[int]
    client: float
    counters: Counters
    asked: int

    async def end(self, jobs: int, stop: Callable[[], Awaitable[None]]) -> Costs:
        """Returns the cost of each job. Stops the processes first: sessions report their commits when they end.

        The harness's own statements are subtracted.
        """
        client = processor.used_by(self.pids) - self.client
        now, before = await self.stage.server.counters(self.place.name), self.counters
        asked = self.place.asked - self.asked
        await stop()
        await self.place.counted()
        commits = (await self.stage.server.counters(self.place.name)).commits
        return Costs(
            statements=None if now.statements is None else (now.statements - (before.statements or 0) - asked) / jobs,
            commits=(commits - before.commits - asked) / jobs,
            wal=(now.wal - before.wal) / jobs,
            client=1e6 * client / jobs,
            server=None if now.processor is None else 1e6 * (now.processor - (before.processor or 0)) / jobs,
        )


async def until(condition: Callable[[], Any], limit: float, what: str, pause: float = 0.005) -> None:
    deadline = monotonic() + limit
    while not await condition():
        if monotonic() > deadline:
            raise CannotMeasure(f"{what}: not within {limit:.0f} s")
        await asyncio.sleep(pause)

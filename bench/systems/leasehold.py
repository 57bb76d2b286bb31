"""Leasehold as its users run it: an app with a handler, a worker process, the tenant's door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic_ns

import asyncpg

from bench.job import NAME, payload, tenant
from bench.listeners import CONTROL, listeners_named, observers_named
from bench.systems import How, Producer, PythonSystem
from bench.tape import Tape
from leasehold import Job, Leasehold
from leasehold.app.definition import TypedDefinition
from leasehold.engines import engine_for
from leasehold.model.job import NewJob
from leasehold.runtime.process import serve
from leasehold.scheduler import FireLoop
from leasehold.worker import Worker

# As docs/how-to/workers.md has it for very many short jobs; the peers' local queues and batches have 500, too.
SLOTS = 500

SYSTEM = PythonSystem(
    name="leasehold",
    distribution="leasehold",
    settings=f"one worker process, {SLOTS} slots, wakes on, history kept; bulk by enqueue_many, a call per tenant",
    unfinished="select count(*) from leasehold.jobs",
)


def app_with_handlers(url: str, note: Tape | None, how: How) -> tuple[Leasehold, TypedDefinition[..., None]]:
    """The app, and its first definition: `bench`; a measure may want another key, or more: `bench-1` and so on."""
    app = Leasehold(url)

    async def bench(job: Job, number: int, sent: int, text: str) -> None:
        if note is not None:
            note.note(number, sent)

    first = app.job(key=how.get("key", NAME))(bench)
    for place in range(1, how.get("definitions", 1)):
        app.job(key=f"{NAME}-{place}")(bench)
    return app, first


# No trigger of the bench matches it.
EVENT = "bench.nothing.matches"
WAKE = "select leasehold.wake_workers($1, $2)"


@dataclass(frozen=True)
class LeaseholdProducer:
    app: Leasehold
    bench: TypedDefinition[..., None]
    pool: "asyncpg.Pool[asyncpg.Record]"
    waker: "asyncpg.Pool[asyncpg.Record]"
    bound: list[NewJob] = field(default_factory=list)

    async def one(self, number: int, how: How) -> int | None:
        door = self.app.tenant(how.get("tenant") or tenant(number))
        if "priority" in how:
            door = door.options(priority=how["priority"])
        if "due_in" in how:
            await self._one_due(number, how["due_in"][number])
        elif how.get("silently"):
            return await self._one_silently(number, how["tenant"])
        elif how.get("emit"):
            await door.aemit(EVENT, payload(number))
        elif how.get("within"):
            async with self.pool.acquire() as connection, connection.transaction():
                await door.within(connection).aenqueue(self.bench, **payload(number))
                return monotonic_ns()
        else:
            await door.aenqueue(self.bench, **payload(number))
        return None

    async def many(self, numbers: range, how: How) -> None:
        door = self.app.tenant(tenant(numbers.start // how["call"]))
        if how.get("only_bind"):
            self.bound.extend(self.bench.bind(**payload(number)) for number in numbers)
        else:
            await door.aenqueue_many(self.bench.bind(**payload(number)) for number in numbers)

    async def _one_silently(self, number: int, owner: str) -> int:
        """Returns when the wake was sent. The job is committed before that, and the wake waits for no disk."""
        async with self.pool.acquire() as connection, connection.transaction():
            door = self.app.tenant(owner).within(connection, wakes=False)
            await door.aenqueue(self.bench, **payload(number))
        async with self.waker.acquire() as connection:
            sent = monotonic_ns()
            await connection.fetchval(WAKE, owner, self.bench.key)
        return sent

    async def _one_due(self, number: int, seconds: float) -> None:
        """`sent` is the moment when it is due, so that what it waited is how late it was."""
        at, moment = datetime.now(UTC), monotonic_ns()
        due = payload(number) | {"sent": moment + int(seconds * 1e9)}
        door = self.app.tenant(tenant(number)).options(at=at + timedelta(seconds=seconds))
        await door.aenqueue(self.bench, **due)


class LeaseholdParts:
    async def install(self, url: str) -> None:
        await engine_for(url).prepare()
        app, _ = app_with_handlers(url, None, {})
        store = await engine_for(url).open()
        await store.sync_definitions(app.handlers.definitions)
        await store.close()

    def work(self, url: str, tape: Tape, how: How) -> None:
        app, _ = app_with_handlers(url, tape, how)
        settings = replace(app.worker_settings(), slots=how.get("slots", SLOTS), notify=how.get("notify", True))
        if "fallback" in how:
            settings = replace(settings, fallback=timedelta(seconds=how["fallback"]))
        observe = listeners_named(how.get("listeners", CONTROL))
        serve(lambda: Worker(engine_for(url).open, app.handlers, settings, observe, FireLoop))

    @asynccontextmanager
    async def producer(self, url: str, how: How) -> AsyncIterator[Producer]:
        app, bench = app_with_handlers(url, None, {})
        for observer in observers_named(how.get("listeners", CONTROL)):
            app.observe(observer)
        without_disk = {"synchronous_commit": "off"}
        async with (
            app.open(),
            asyncpg.create_pool(url, min_size=0, max_size=1) as pool,
            asyncpg.create_pool(url, min_size=0, max_size=1, server_settings=without_disk) as waker,
        ):
            yield LeaseholdProducer(app, bench, pool, waker)


PARTS = LeaseholdParts()

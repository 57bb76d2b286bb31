"""Tools for directed race tests: raw transactions, statements held at their snapshot, and a worker in steps.

Gate       holds the statements of one name when they ask for the time: their snapshot is taken, and nothing is read
           or locked yet. Other sessions commit meanwhile.
stepped    makes a store's claiming link call the test after each statement
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
from tests.conftest import Raw, eventually
from tests.postgres_parts import StoreInParts
from tests.store.wake_listener import WakeListener

from leasehold.engines.postgres.statements import statements
from leasehold.model.job import JobId
from leasehold.store import Registration, Store, Wake

T = TypeVar("T")

GATE = 4711
GATED_CLOCK = """
    create table if not exists leasehold.test_gate (statement text not null);
    create or replace function leasehold.clock() returns timestamptz language plpgsql volatile as $$
    begin
        if exists (select from leasehold.test_gate where current_query() = statement) then
            perform pg_advisory_lock_shared(4711);
            perform pg_advisory_unlock_shared(4711);
        end if;
        return clock_timestamp() + (select moved from leasehold.test_clock);
    end $$;
"""


class Gate:
    """Holds all statements of one name, such as fleet/evict, from `close` to `open`."""

    def __init__(self, connection: Raw) -> None:
        self._connection = connection

    async def close(self, name: str) -> None:
        text = statements("leasehold")[name].text
        await self._connection.execute("select pg_advisory_lock($1)", GATE)
        await self._connection.execute("insert into leasehold.test_gate values ($1)", text)

    async def holds(self, count: int) -> None:
        """Returns when so many statements stand before it."""

        async def enough() -> bool:
            waiting = await self._connection.fetchval(
                """
                select count(*) from pg_locks
                where locktype = 'advisory' and objid = $1 and not granted
                  and database = (select oid from pg_database where datname = current_database())
                """,
                GATE,
            )
            return int(waiting) >= count

        await eventually(enough, what=f"{count} statements at the gate")

    async def open(self) -> None:
        await self._connection.execute("delete from leasehold.test_gate")
        await self._connection.execute("select pg_advisory_unlock($1)", GATE)


def stepped(store: Store, after: Callable[[str], Awaitable[object]]) -> None:
    """From now on `after` is awaited between any two statements by which this store claims and settles."""
    parts_of(store).links.claim.after = after


def with_statement(store: Store, name: str, text: str) -> None:
    """This store alone uses another text for a statement: for tests that show what a part of the engine is for."""
    parts_of(store).database.texts[name] = text


def parts_of(store: Store) -> StoreInParts:
    assert isinstance(store, StoreInParts)
    return store


async def at_once(*calls: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Starts all of them behind a barrier, and returns their answers."""
    barrier = asyncio.Barrier(len(calls))

    async def start(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await barrier.wait()
        return await call()

    return await asyncio.gather(*(start(call) for call in calls))


async def blocked(observer: Raw, count: int = 1) -> None:
    """Returns when so many sessions of this database wait for a lock."""

    async def enough() -> bool:
        await observer.execute("select pg_stat_clear_snapshot()")  # kept for the length of a transaction otherwise
        waiting = await observer.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return int(waiting) >= count

    await eventually(enough, what=f"{count} sessions that wait for a lock")


async def running(observer: Raw) -> int:
    return int(await observer.fetchval("select count(*) from leasehold.jobs where status = 'running'"))


async def sleepers(observer: Raw) -> list[str]:
    rows = await observer.fetch("select worker_id from leasehold.sleepers order by id")
    return [str(row["worker_id"]) for row in rows]


async def heard_so_far(observer: Raw, listener: dict[Registration, WakeListener]) -> Counter[Registration]:
    """How many wakes each has heard, made sure of by a cancel to each, which comes after all that was sent before."""
    counted: Counter[Registration] = Counter()
    for registration, each in listener.items():
        await observer.execute("select pg_notify(leasehold.channel($1::uuid), 'cancel')", registration.worker)
        while await each.next() is not Wake.CANCEL:
            counted[registration] += 1
    return counted


def no_job_twice(jobs: Iterable[JobId]) -> bool:
    return all(count == 1 for count in Counter(jobs).values())


@asynccontextmanager
async def task(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Ended, one way or the other, when the block is left."""
    started = asyncio.create_task(work)
    try:
        yield started
    finally:
        started.cancel()
        await asyncio.gather(started, return_exceptions=True)


class Connections:
    """Raw connections, closed when the test has ended."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def open(self, **settings: str) -> Raw:
        connection: Raw = await asyncpg.connect(self._url, server_settings={"application_name": "test", **settings})
        self._stack.push_async_callback(connection.close, timeout=5)
        return connection


SOON = timedelta(seconds=5)
"""A guard against hanging, never a measure of speed."""

"""Listening: for a worker's wakes, and for results that someone waits for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from random import random
from typing import Any

import asyncpg

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.database import Database, closed
from leasehold.errors import CannotListen, Unreachable
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.store import Seat, Wake

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
PROBE_LIMIT = 2.0
RESULT_FALLBACK = timedelta(seconds=5)


async def wakes(database: Database, seat: Seat) -> AsyncGenerator[Wake, None]:
    """Wakes for a seat, over reconnections. Each connection begins with one WORK: some may have been missed."""
    pause = FIRST_PAUSE
    while True:
        try:
            async with _listening(database, seat) as heard:
                pause = FIRST_PAUSE
                yield Wake.WORK
                while (wake := await heard.next()) is not None:
                    yield wake
        except Unreachable:
            await asyncio.sleep(pause * (0.5 + random()))
            pause = min(2 * pause, LONGEST_PAUSE)


@asynccontextmanager
async def _listening(database: Database, seat: Seat) -> AsyncIterator["_Heard"]:
    heard = _Heard()
    connection = await database.connect()
    try:
        with database.translated():
            connection.add_termination_listener(heard.on_termination)
            (channels,) = await database.fetch_on(connection, "fleet/channels", worker=seat.worker)
            for channel in channels:
                await connection.add_listener(channel, heard.on_notify)
            await _require_hearing(database, seat, heard)
            # Producers see by this lock that somebody is really there; it ends with the connection.
            await database.fetch_on(connection, "fleet/lock_listener", worker=seat.worker)
        yield heard
    finally:
        await closed(connection)


async def _require_hearing(database: Database, seat: Seat, heard: "_Heard") -> None:
    """Behind a pooler in transaction mode LISTEN succeeds, and nothing ever arrives (0 of 3)."""
    await database.fetch("fleet/probe", worker=seat.worker)
    try:
        async with asyncio.timeout(PROBE_LIMIT):
            await heard.probe.wait()
    except TimeoutError:
        raise CannotListen(
            f"a NOTIFY sent to ourselves did not arrive within {PROBE_LIMIT:g} s: this looks like a pooler in "
            "transaction mode. Wakes are replaced by polling; no job is lost.",
            fix="Set LEASEHOLD_URL of workers to Postgres itself, or LEASEHOLD_NOTIFY=off.",
        ) from None


class _Heard:
    """What came in and was not yet asked for; equal wakes fold into one."""

    def __init__(self) -> None:
        self._pending: dict[Wake, None] = {}
        self._ended = False
        self._changed = asyncio.Event()
        self.probe = asyncio.Event()

    async def next(self) -> Wake | None:
        while not self._pending:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        wake = next(iter(self._pending))
        del self._pending[wake]
        return wake

    def on_notify(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if payload == "probe":
            self.probe.set()
            return
        self._pending[Wake.CANCEL if payload == "cancel" else Wake.WORK] = None
        self._changed.set()

    def on_termination(self, connection: Any) -> None:
        self._ended = True
        self._changed.set()


class Results:
    """One connection that hears of ended jobs, for everyone in this process who waits for one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._round = asyncio.Event()
        self._looks: dict[TenantId, Look] = {}

    async def listen(self) -> None:
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._listening()

    async def _listening(self) -> "asyncpg.Connection[asyncpg.Record]":
        connection = await self._database.connect()
        connection.add_termination_listener(self._next_round)
        try:
            (channel,) = await self._database.fetch_on(connection, "fleet/channel_for_results")
            await connection.add_listener(channel[0], self._next_round)
        except BaseException:  # or all who come later would wait on a connection that hears nothing
            connection.terminate()
            raise
        return connection

    def round(self) -> asyncio.Event:
        """An event that is set when any awaited job ends; take it before you look, then wait for it."""
        return self._round

    async def look(self, tenant: TenantId, job: JobId) -> JobRecord | None:
        """By one statement for all who look at the same time: whenever some job ends, all who wait for one do."""
        if tenant not in self._looks:
            self._looks[tenant] = Look(partial(self._look_once, tenant))
        return await self._looks[tenant].at(job)

    async def _look_once(self, tenant: TenantId) -> Mapping[JobId, JobRecord]:
        await asyncio.sleep(0)  # for those who were woken by the same word
        jobs = self._looks.pop(tenant).jobs
        found = await self._database.fetch("tenant/get", tenant=tenant, jobs=sorted(jobs))
        return {record.id: record for record in map(rows.job, found)}

    async def close(self) -> None:
        async with self._opening:
            if self._connection is not None:
                await closed(self._connection)
                self._connection = None

    def _next_round(self, *_: Any) -> None:
        ended, self._round = self._round, asyncio.Event()
        ended.set()


class Look:
    """At jobs of one tenant, by whoever joins in before it begins."""

    def __init__(self, once: Callable[[], Coroutine[Any, Any, Mapping[JobId, JobRecord]]]) -> None:
        self.jobs: set[JobId] = set()
        self._found = asyncio.ensure_future(once())

    async def at(self, job: JobId) -> JobRecord | None:
        self.jobs.add(job)
        return (await asyncio.shield(self._found)).get(job)

"""Listening: for a worker's wakes, and for results that someone waits for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import random
from typing import Any

import asyncpg

from leasehold.engines.postgres.database import Database, closed
from leasehold.errors import CannotListen, Unreachable
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

    async def listen(self) -> None:
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._database.connect()
                self._connection.add_termination_listener(self._next_round)
                (channel,) = await self._database.fetch_on(self._connection, "fleet/channel_for_results")
                await self._connection.add_listener(channel[0], self._next_round)

    def round(self) -> asyncio.Event:
        """An event that is set when any awaited job ends; take it before you look, then wait for it."""
        return self._round

    async def close(self) -> None:
        async with self._opening:
            if self._connection is not None:
                await closed(self._connection)
                self._connection = None

    def _next_round(self, *_: Any) -> None:
        ended, self._round = self._round, asyncio.Event()
        ended.set()

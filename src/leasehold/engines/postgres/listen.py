"""Listening for a worker's wakes, and for the times at which schedules fire."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from random import random
from typing import Any
from uuid import uuid4

from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.engines.postgres.database import Database
from leasehold.errors import CannotListen, Unreachable
from leasehold.model.job import WorkerId
from leasehold.store import DueWork, NextFire, Wake

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
PROBE_LIMIT = 2.0


News = Wake | DueWork | NextFire


async def wakes(database: Database, worker: WorkerId) -> AsyncGenerator[News, None]:
    """Yields wakes for a worker, over reconnections. Each connection begins with one WORK: some may be missed.

    Logs the loss of a connection once there is another one. If the database is away, the worker tells of that.
    """
    pause, is_lost = FIRST_PAUSE, False
    while True:
        try:
            async with _listening(database, worker) as queue:
                if is_lost:
                    log.warning(
                        "the listener of worker %s lost its connection, and has a connection again. No job is lost: "
                        "the worker looks for missed ones now.",
                        worker,
                    )
                pause, is_lost = FIRST_PAUSE, False
                yield Wake.WORK
                while (wake := await queue.next()) is not None:
                    yield wake
            is_lost = True
            log.debug("the listener of worker %s lost its connection", worker)
        except Unreachable:
            is_lost = False
            await asyncio.sleep(pause * (0.5 + random()))
            pause = min(2 * pause, LONGEST_PAUSE)


async def fire_times(database: Database) -> AsyncGenerator[NextFire, None]:
    """Yields when schedules fire, over reconnections. Each connection begins with a look: some may be missed."""
    async with aclosing(wakes(database, WorkerId(str(uuid4())))) as heard:
        async for news in heard:
            if isinstance(news, NextFire):
                yield news
            elif news is Wake.WORK:
                yield NextFire(None)


@asynccontextmanager
async def _listening(database: Database, worker: WorkerId) -> AsyncIterator["_WakeQueue"]:
    queue, listener = _WakeQueue(), database.listener
    connection = await listener.connect()
    try:
        with listener.translate_errors():
            connection.add_termination_listener(queue.on_termination)
            (channels,) = await database.fetch("fleet/channels", worker=worker)
            async with listener.transaction(connection):  # a pooler may part what the driver sends for one statement
                for channel in channels:
                    await connection.add_listener(channel, queue.on_notify)
            await _require_delivery(database, connection, worker, queue)
            # Producers see by this lock that somebody is really there; it ends with the connection.
            await listener.fetch_on(connection, "fleet/lock_listener", worker=worker)
        yield queue
    finally:
        await close_connection(connection)


async def _require_delivery(
    database: Database, connection: OwnConnection, worker: WorkerId, queue: "_WakeQueue"
) -> None:
    """Raises CannotListen behind a pooler in transaction mode, where LISTEN succeeds and nothing ever arrives (0 of
    3).

    A slow link only looks like that. The server sends a notification before its answer to the next statement of the
    same session, so after such an answer no notification can be under way.
    """
    await database.fetch("fleet/probe", worker=worker)
    with suppress(TimeoutError):
        async with asyncio.timeout(PROBE_LIMIT):
            await queue.probe.wait()
            return
    await connection.execute("select")
    if not queue.probe.is_set():
        raise CannotListen(
            "a NOTIFY sent to ourselves did not arrive: this looks like a pooler in transaction mode. Wakes are "
            "replaced by polling; no job is lost.",
            fix="Set LEASEHOLD_LISTEN_URL of workers to Postgres itself, or LEASEHOLD_NOTIFY=off.",
        )


class _WakeQueue:
    """Wakes that came in and were not yet read; equal wakes fold into one."""

    def __init__(self) -> None:
        self._pending: dict[News, None] = {}
        self._ended = False
        self._changed = asyncio.Event()
        self.probe = asyncio.Event()

    async def next(self) -> News | None:
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
        self._pending[_read(str(payload))] = None
        self._changed.set()

    def on_termination(self, connection: Any) -> None:
        self._ended = True
        self._changed.set()


def _read(payload: str) -> News:
    """Reads an unknown payload as WORK: a newer release may have sent it."""
    try:
        match payload.split(" ", 2):
            case ["due", seconds, definition]:
                return DueWork(definition, timedelta(seconds=float(seconds)))
            case ["fire", seconds]:
                return NextFire(timedelta(seconds=float(seconds)))
            case ["fired", seconds]:
                return NextFire(timedelta(seconds=float(seconds)), fired=True)
            case ["event"]:
                return NextFire(timedelta(), event=True)
            case ["schedules"]:
                return NextFire(None)
            case ["fired"]:
                return NextFire(None, fired=True)
        return Wake(payload)
    except (ValueError, OverflowError):
        return Wake.WORK

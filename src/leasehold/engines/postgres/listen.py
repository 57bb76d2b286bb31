"""Listening for a worker's wakes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from random import random
from typing import Any

from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.engines.postgres.database import Database
from leasehold.errors import CannotListen, Unreachable
from leasehold.store import DueWork, Registration, Wake

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
PROBE_LIMIT = 2.0


async def wakes(database: Database, registration: Registration) -> AsyncGenerator[Wake | DueWork, None]:
    """Yields wakes for a registration, over reconnections. Each connection begins with one WORK: wakes may have been
    missed.
    """
    pause, is_lost = FIRST_PAUSE, False
    while True:
        try:
            async with _listening(database, registration) as queue:
                if is_lost:
                    log.info("the listener of worker %s has a connection again", registration.worker)
                pause, is_lost = FIRST_PAUSE, False
                yield Wake.WORK
                while (wake := await queue.next()) is not None:
                    yield wake
            is_lost = True
            log.warning(
                "the listener of worker %s lost its connection, and connects again. No job is lost: the worker looks "
                "for missed ones as soon as it listens, and if it does not by its next heartbeat, it begins to poll.",
                registration.worker,
            )
        except Unreachable:
            await asyncio.sleep(pause * (0.5 + random()))
            pause = min(2 * pause, LONGEST_PAUSE)


@asynccontextmanager
async def _listening(database: Database, registration: Registration) -> AsyncIterator["_WakeQueue"]:
    queue, listener = _WakeQueue(), database.listener
    connection = await listener.connect()
    try:
        with listener.translate_errors():
            connection.add_termination_listener(queue.on_termination)
            (channels,) = await database.fetch("fleet/channels", worker=registration.worker)
            async with listener.transaction(connection):  # a pooler may part what the driver sends for one statement
                for channel in channels:
                    await connection.add_listener(channel, queue.on_notify)
            await _require_delivery(database, connection, registration, queue)
            # Producers see by this lock that somebody is really there; it ends with the connection.
            await listener.fetch_on(connection, "fleet/lock_listener", worker=registration.worker)
        yield queue
    finally:
        await close_connection(connection)


async def _require_delivery(
    database: Database, connection: OwnConnection, registration: Registration, queue: "_WakeQueue"
) -> None:
    """Raises CannotListen behind a pooler in transaction mode, where LISTEN succeeds and nothing ever arrives (0 of
    3).

    A slow link only looks like that. The server sends a notification before its answer to the next statement of the
    same session, so after such an answer no notification can be under way.
    """
    await database.fetch("fleet/probe", worker=registration.worker)
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
        self._pending: dict[Wake | DueWork, None] = {}
        self._ended = False
        self._changed = asyncio.Event()
        self.probe = asyncio.Event()

    async def next(self) -> Wake | DueWork | None:
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


def _read(payload: str) -> Wake | DueWork:
    """Reads an unknown payload as WORK: a newer release may have sent it."""
    try:
        if payload.startswith("due "):
            _, seconds, definition = payload.split(" ", 2)
            return DueWork(definition, timedelta(seconds=float(seconds)))
        return Wake(payload)
    except (ValueError, OverflowError):
        return Wake.WORK

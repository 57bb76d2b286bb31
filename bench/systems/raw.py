"""Leasehold's own statements, driven by a plain loop: what the SQL alone can do. No handlers, no worker, no fairness.

Claiming and finishing go on at once over two connections, and the claim commits asynchronously, as in the worker.
Enqueuing is what anybody would write by hand: an insert that commits, and COPY for many.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from math import ceil
from time import monotonic_ns
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import orjson
from asyncpg import Record
from uuid_utils import uuid7

from bench.job import NAME, batches, payload, tenant
from bench.systems import How, Producer, PythonSystem
from bench.systems.leasehold import SYSTEM as OURS
from bench.systems.leasehold import LeaseholdParts
from bench.tape import Tape
from leasehold.engines.postgres.database import ONE_PLAN
from leasehold.engines.postgres.statements import statements

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Record]

BATCH = 200
LANES_AT_ONCE = 64
FALLBACK = 5.0
CHANNEL = "bench_raw"

SYSTEM = PythonSystem(
    name="raw",
    distribution="asyncpg",
    settings=f"asyncpg, Leasehold's claim and finish in batches of {BATCH} on two connections, claims commit "
    "asynchronously; enqueue: INSERT with autocommit, bulk by COPY; woken by LISTEN",
    unfinished=OURS.unfinished,
)

INSERT = """
    insert into leasehold.jobs (id, tenant_id, definition, version, priority, max_attempts, scheduled_for, queued_at,
                                ready, status, payload, source)
    values ($1, $2, $3, 1, 100, 5, now(), now(), true, 'queued', $4, 'manual')
"""
NOTIFY = f"select pg_notify('{CHANNEL}', '')"
INSERT_AND_NOTIFY = f"with job as ({INSERT}) {NOTIFY}"
COLUMNS = (
    *("id", "tenant_id", "definition", "version", "priority", "max_attempts", "scheduled_for", "queued_at"),
    *("ready", "status", "payload", "source"),
)


async def fetch(connection: "Connection", name: str, **values: Any) -> list[Record]:
    statement = statements("leasehold")[name]
    return await connection.fetch(statement.text, *statement.arguments(values))


@dataclass
class Loop:
    """Claims and finishes until it is canceled; when there is nothing, waits for a NOTIFY."""

    tape: Tape
    claimer: "Connection"
    finisher: "Connection"
    worker: str = field(default_factory=lambda: str(uuid4()))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    claimed: asyncio.Queue[list[Record]] = field(default_factory=lambda: asyncio.Queue(2))
    definitions: list[str] = field(default_factory=lambda: [NAME])

    async def run(self) -> None:
        facts = {"host": "", "pid": 0, "version": "", "slots": BATCH, "metadata": "{}", "lease": timedelta(days=1)}
        await fetch(self.claimer, "fleet/join", worker=self.worker, **facts, **self._served())
        async with asyncio.TaskGroup() as both:
            both.create_task(self._claim_on())
            both.create_task(self._finish_on())

    async def _claim_on(self) -> None:
        while True:
            self.woken.clear()
            lanes = await self._lanes()
            if not lanes:
                await self._wait()
            empty = 0
            for piece in cycle(list(_pieces(lanes))) if lanes else ():
                rows = await self._claim(piece)
                empty = 0 if rows else empty + 1
                if empty * LANES_AT_ONCE >= len(lanes):
                    break
                if rows:
                    await self.claimed.put(rows)

    async def _lanes(self) -> list[str]:
        whole: dict[str, Any] = {"after": "", "until": None, "around": True, "most": 100_000, "limit": 0}
        whole |= {"even_if_due": False, "due_from": None, "cheap": 0.002}
        (row,) = await fetch(
            self.claimer, "fleet/claim_next_tenants", worker=self.worker, batch=1, **whole, **self._served()
        )
        found: list[str] = row["tenants"]
        return found

    async def _claim(self, tenants: Sequence[str]) -> list[Record]:
        lanes = len(tenants)
        rows = await fetch(
            self.claimer,
            "fleet/claim_from_lanes",
            worker=self.worker,
            batch=1,
            definitions=[NAME] * lanes,
            tenants=tenants,
            from_priorities=[-(2**15)] * lanes,
            from_seqs=[-1] * lanes,
            to_priorities=[2**15 - 1] * lanes,
            share=ceil(BATCH / lanes),
            limit=BATCH,
            locked_tenants=[],
            locked_definitions=[],
            advance=False,
        )
        for row in rows:
            job = orjson.loads(row["payload"])
            self.tape.note(job["number"], job["sent"])
        return rows

    async def _finish_on(self) -> None:
        succeeded = "succeeded"
        shared = {"tenant": None, "attempt": None, "worker": self.worker, "batch": 1, "status": succeeded}
        shared |= {"attempt_status": succeeded, "keep": "30 days"}
        while True:
            rows = await self.claimed.get()
            arrays = {
                "tenants": [row["tenant_id"] for row in rows],
                "jobs": [row["id"] for row in rows],
                "attempts": [str(row["attempt"]) for row in rows],
            }
            verdicts = dict.fromkeys(("workers", "batches", "statuses", "attempt_statuses", "keeps"), "{}")
            verdicts |= {name: f"{{{','.join(values)}}}" for name, values in arrays.items()}
            nothing: list[Any] = []
            nothing_to_say = dict.fromkeys(("results", "errors", "error_codes", "exit_codes", "details"), nothing)
            await fetch(self.finisher, "fleet/finish", **shared, **verdicts, **nothing_to_say)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(FALLBACK):
                await self.woken.wait()
        except TimeoutError:
            return

    def _served(self) -> dict[str, Any]:
        return {"definitions": self.definitions, "tenants": None}


def _pieces(lanes: Sequence[str]) -> Iterator[Sequence[str]]:
    for piece in batches(range(len(lanes)), LANES_AT_ONCE):
        yield lanes[piece.start : piece.stop]


@dataclass(frozen=True)
class RawProducer:
    connection: "Connection"
    waker: "Connection | None" = None

    async def one(self, number: int, how: How) -> int | None:
        row = (uuid7().hex, tenant(number), NAME, orjson.dumps(payload(number)).decode())
        if how.get("silently") and self.waker is not None:
            await self.connection.fetch(INSERT, *row)
            sent = monotonic_ns()
            await self.waker.fetch(NOTIFY)
            return sent
        await self.connection.fetch(INSERT_AND_NOTIFY if how.get("wake") else INSERT, *row)
        return None

    async def many(self, numbers: range, how: How) -> None:
        now, owner = datetime.now(UTC), tenant(numbers.start // how["call"])
        rows = [
            (
                uuid7().hex,
                owner,
                NAME,
                1,
                100,
                5,
                now,
                now,
                True,
                "queued",
                orjson.dumps(payload(n)).decode(),
                "manual",
            )
            for n in numbers
        ]
        await self.connection.copy_records_to_table("jobs", schema_name="leasehold", records=rows, columns=COLUMNS)


class RawParts(LeaseholdParts):
    def work(self, url: str, tape: Tape, how: How) -> None:
        asyncio.run(self._work(url, tape))

    async def _work(self, url: str, tape: Tape) -> None:
        claimer = await asyncpg.connect(url, server_settings=ONE_PLAN | {"synchronous_commit": "off"})
        loop = Loop(tape, claimer, await asyncpg.connect(url, server_settings=ONE_PLAN))
        listener = await asyncpg.connect(url)
        await listener.add_listener(CHANNEL, lambda *_: loop.woken.set())
        running = asyncio.create_task(loop.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])
        for connection in (claimer, loop.finisher, listener):
            connection.terminate()
        if not running.cancelled():
            running.result()

    @asynccontextmanager
    async def producer(self, url: str, how: How) -> AsyncIterator[Producer]:
        connection = await asyncpg.connect(url)
        waker = await asyncpg.connect(url, server_settings={"synchronous_commit": "off"})
        try:
            yield RawProducer(connection, waker)
        finally:
            await connection.close()
            await waker.close()


PARTS = RawParts()

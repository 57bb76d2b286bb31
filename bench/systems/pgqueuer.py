"""PgQueuer, as its guide to performance tuning has it: asyncpg, uvloop, larger batches, its autovacuum settings."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench.job import NAME, payload
from bench.systems import How, Producer, PythonSystem
from bench.tape import Tape

BATCH = 100

SYSTEM = PythonSystem(
    name="pgqueuer",
    distribution="pgqueuer",
    settings=f"asyncpg, uvloop, one QueueManager on a connection of its own, batch_size {BATCH}, durable tables, "
    "`pgq autovac` applied; producers on a pool; bulk by enqueue with lists",
    unfinished="select count(*) from pgqueuer",
)


@dataclass(frozen=True)
class PgQueuerProducer:
    queries: Any

    async def one(self, number: int, how: How) -> None:
        await self.queries.enqueue(NAME, json.dumps(payload(number)).encode())

    async def many(self, numbers: range, how: How) -> None:
        payloads = [json.dumps(payload(number)).encode() for number in numbers]
        await self.queries.enqueue([NAME] * len(numbers), payloads, [0] * len(numbers))


class PgQueuerParts:
    async def install(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.optimize_autovacuum()
        await connection.close()

    def work(self, url: str, tape: Tape, how: How) -> None:
        uvloop.run(self._work(url, tape))

    async def _work(self, url: str, tape: Tape) -> None:
        queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

        async def bench(job: Any) -> None:
            sent = json.loads(job.payload)
            tape.note(sent["number"], sent["sent"])

        queue.entrypoint(NAME)(bench)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
        await queue.run(batch_size=BATCH)

    @asynccontextmanager
    async def producer(self, url: str, how: How) -> AsyncIterator[Producer]:
        async with asyncpg.create_pool(url) as pool:
            yield PgQueuerProducer(Queries(AsyncpgPoolDriver(pool)))


PARTS = PgQueuerParts()

"""Oban for Python. It needs Python 3.12, so it has an interpreter of its own: see bench/install_peers.py."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.job import NAME, payload
from bench.systems import How, Producer, PythonSystem
from bench.tape import Tape

LIMIT = 50
FOLDER = Path(__file__).parent.parent / ".oban"


class ObanSystem(PythonSystem):
    def why_not(self) -> str | None:
        return None if Path(self.interpreter).exists() else "not installed: needs Python 3.12"

    def version(self) -> str:
        asked = "from importlib.metadata import version; print(version('oban'))"
        return subprocess.run([self.interpreter, "-c", asked], capture_output=True, text=True).stdout.strip()


SYSTEM = ObanSystem(
    name="oban",
    distribution="oban",
    settings=f"Python 3.12, uvloop, psycopg 3 (binary), one queue with limit {LIMIT}, a pool of 10; bulk by "
    "enqueue_many",
    unfinished="select count(*) from oban_jobs where state in ('available', 'scheduled', 'executing', 'retryable')",
    interpreter=str(FOLDER / "bin" / "python"),
)


def bench_worker(tape: Tape | None) -> Any:
    from oban import worker

    class Bench:
        async def process(self, job: Any) -> None:
            if tape is not None:
                tape.note(job.args["number"], job.args["sent"])

    return worker(queue=NAME)(Bench)


@dataclass(frozen=True)
class ObanProducer:
    oban: Any
    worker: Any

    async def one(self, number: int, how: How) -> None:
        await self.oban.enqueue(self.worker.new(payload(number)))

    async def many(self, numbers: range, how: How) -> None:
        await self.oban.enqueue_many([self.worker.new(payload(number)) for number in numbers])


class ObanParts:
    async def install(self, url: str) -> None:
        from oban import Oban, schema

        pool = await Oban.create_pool(url)
        await schema.install(pool)
        await pool.close()

    def work(self, url: str, tape: Tape, how: How) -> None:
        import uvloop

        uvloop.run(self._work(url, tape))

    async def _work(self, url: str, tape: Tape) -> None:
        from oban import Oban

        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        bench_worker(tape)
        pool = await Oban.create_pool(url)
        async with Oban(pool=pool, queues={NAME: LIMIT}):
            await stopping.wait()
        await pool.close()

    @asynccontextmanager
    async def producer(self, url: str, how: How) -> AsyncIterator[Producer]:
        from oban import Oban

        pool = await Oban.create_pool(url)
        async with Oban(pool=pool) as oban:
            yield ObanProducer(oban, bench_worker(None))
        await pool.close()


PARTS = ObanParts()

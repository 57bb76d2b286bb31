"""Procrastinate, with the asynchronous psycopg connector that its documentation names first, and more slots."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.job import NAME, payload
from bench.systems import How, Producer, PythonSystem
from bench.tape import Tape

CONCURRENCY = 20

SYSTEM = PythonSystem(
    name="procrastinate",
    distribution="procrastinate",
    settings=f"psycopg 3 (binary), concurrency {CONCURRENCY}, a pool of as many connections and two, LISTEN on, "
    "jobs kept (its default); bulk by batch_defer_async",
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
)


def app_with_task(url: str, tape: Tape | None) -> tuple[App, Any]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=CONCURRENCY + 2))

    async def bench(number: int, sent: int, text: str) -> None:
        if tape is not None:
            tape.note(number, sent)

    return app, app.task(name=NAME)(bench)


@dataclass(frozen=True)
class ProcrastinateProducer:
    task: Any

    async def one(self, number: int, how: How) -> None:
        await self.task.defer_async(**payload(number))

    async def many(self, numbers: range, how: How) -> None:
        await self.task.batch_defer_async(*[payload(number) for number in numbers])


class ProcrastinateParts:
    async def install(self, url: str) -> None:
        app, _ = app_with_task(url, None)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    def work(self, url: str, tape: Tape, how: How) -> None:
        asyncio.run(self._work(url, tape))

    async def _work(self, url: str, tape: Tape) -> None:
        app, _ = app_with_task(url, tape)
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY)

    @asynccontextmanager
    async def producer(self, url: str, how: How) -> AsyncIterator[Producer]:
        app, task = app_with_task(url, None)
        async with app.open_async():
            yield ProcrastinateProducer(task)


PARTS = ProcrastinateParts()

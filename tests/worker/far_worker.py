"""A worker in this process that reaches the database through a proxy, and a handler that notes what it did.

The fallback is an hour unless a test says otherwise: a job that is found was not found by chance.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.conftest import eventually
from tests.tenant_kit import HOUR

from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.store import TenantJobs
from leasehold.worker import Handlers, Job, Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases

TASK = Definition("task", max_attempts=5, backoff=Steps(0))
LONG = timedelta(seconds=60)


@dataclass
class Seen:
    """Moments that the handler noted, on the monotonic clock."""

    started: list[JobId] = field(default_factory=list)
    ended: list[JobId] = field(default_factory=list)
    stopped: dict[JobId, float] = field(default_factory=dict)

    def handlers(self) -> Handlers:
        handlers = Handlers()

        @handlers.add(TASK)
        async def task(job: Job, payload: dict[str, Any]) -> str:
            self.started.append(job.id)
            try:
                await asyncio.sleep(payload.get("seconds", 0) if job.attempt == 1 else 0)
            except asyncio.CancelledError:
                self.stopped[job.id] = time.monotonic()
                raise
            self.ended.append(job.id)
            return f"by attempt {job.attempt}"

        return handlers


@asynccontextmanager
async def at_work(url: str, seen: Seen, *, lease: timedelta = LONG, **settings: Any) -> AsyncIterator[Worker]:
    """A worker that is stopped when the block is left; one that ended by itself fails the test."""
    chosen = {"fallback": HOUR, "grace": timedelta(seconds=5), **settings}
    worker = Worker(
        engine_for(url).open,
        seen.handlers(),
        WorkerSettings(leases=Leases(busy=lease, idle=lease), **chosen),
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
        assert not running.done(), "the worker ended by itself"
    finally:
        worker.stop()
        async with asyncio.timeout(30):
            await running


async def enqueue(acme: TenantJobs, **fields: Any) -> JobId:
    payload = {"seconds": fields.pop("seconds", 0)}
    (placed,) = await acme.enqueue([NewJob(definition="task", payload=payload, **fields)])
    return placed.id


async def ended(acme: TenantJobs, jobs: Sequence[JobId]) -> list[JobRecord]:
    """The jobs, once all of them are final."""

    async def all_final() -> bool:
        return all(record is not None and record.status.final for record in await read())

    async def read() -> list[JobRecord | None]:
        try:
            return [await acme.get(job) for job in jobs]
        except Unreachable:
            return [None]

    await eventually(all_final, what=f"the end of {len(jobs)} jobs")
    return [record for record in await read() if record is not None]


async def began(seen: Seen, job: JobId) -> None:
    async def has_started() -> bool:
        return job in seen.started

    await eventually(has_started, what=f"the start of {job}")


async def asleep(ask: Callable[..., Awaitable[Any]]) -> None:
    """The worker listens, and has told producers that it sleeps."""

    async def sleeps() -> bool:
        return bool(
            await ask(
                """
                select exists (select from leasehold.sleepers s where leasehold.listens(s.worker_id))
                """
            )
        )

    await eventually(sleeps, what="a sleeping worker")

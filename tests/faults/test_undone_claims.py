"""A server crashes while a worker works: claims that the crash has undone come back to the same worker.

Handlers swallow their cancel and return late, as badly behaved ones do. Whatever they return, the stored result is
that of the run whose claim holds.
"""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import eventually
from tests.postgres.crashes import crash, own_server
from tests.postgres.test_lost_claims import SETTINGS
from tests.tenant_kit import ACME, HOUR

from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.errors import Unreachable
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, JobRecord, NewJob
from leasehold.model.status import Status
from leasehold.store import Store
from leasehold.worker import Handlers, Job, Worker, WorkerSettings

pytestmark = pytest.mark.faults

CRASHES = 6
JOBS = 4
TASK = Definition("task")


class Runs:
    """Each run returns its number among the runs of its job. All but the last swallow their cancel."""

    def __init__(self) -> None:
        self.of: Counter[JobId] = Counter()
        self.claims: dict[JobId, list[tuple[int, str]]] = {}
        self.may_end: dict[tuple[JobId, int], asyncio.Event] = {}
        self.stopped: set[tuple[JobId, int]] = set()

    def handlers(self) -> Handlers:
        handlers = Handlers()

        @handlers.add(TASK)
        async def task(job: Job, payload: dict[str, Any]) -> int:
            self.of[job.id] += 1
            number = self.of[job.id]
            self.claims.setdefault(job.id, []).append((job.attempt, job._claim.worker))
            may_end = self.may_end[job.id, number] = asyncio.Event()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    self.stopped.add((job.id, number))
            return number

        return handlers

    def let_go(self, job: JobId, number: int) -> None:
        self.may_end[job, number].set()


async def test_after_a_crash_only_the_run_whose_claim_holds_is_heard() -> None:
    runs, repeated = Runs(), 0
    with own_server(SETTINGS) as server:
        await migrate(server.url, schema="leasehold")
        store = await engine_for(server.url).open()
        settings = WorkerSettings(slots=100, fallback=HOUR, grace=timedelta())
        worker = Worker(engine_for(server.url).open, runs.handlers(), settings)
        try:
            await store.sync_definitions([TASK])
            working = asyncio.create_task(worker.run())
            for _ in range(CRASHES):
                placed = await store.tenant(ACME).enqueue([NewJob(definition="task") for _ in range(JOBS)])
                jobs = [each.id for each in placed]
                await started(runs, jobs, 1)
                await crash(server)
                await started_where_undone(store, runs, jobs)
                for job in jobs:
                    repeated += len(runs.claims[job]) > len(set(runs.claims[job]))
                    for number in range(1, runs.of[job] + 1):
                        runs.let_go(job, number)
                for job in jobs:
                    record = await final(store, job)
                    assert (record.status, record.result) == (Status.SUCCEEDED, runs.of[job]), "a stale result"
        finally:
            for event in runs.may_end.values():
                event.set()
            worker.stop()
            worker.stop()
            await working
            await store.close()
    sys.stdout.write(f"\n{CRASHES} crashes, {CRASHES * JOBS} jobs, {repeated} claimed again with an equal attempt\n")
    assert repeated, "no claim was undone and repeated under the same worker: this run has shown nothing"


async def started(runs: Runs, jobs: list[JobId], count: int) -> None:
    async def all_started() -> bool:
        return all(runs.of[job] >= count for job in jobs)

    await eventually(all_started, what=f"run {count} of each job")


async def started_where_undone(store: Store, runs: Runs, jobs: list[JobId]) -> None:
    """Each job runs, and where the crash has undone its claim, its first run was stopped and a second has begun."""

    async def settled() -> bool:
        with suppress(Unreachable):
            for job in jobs:
                record = await store.tenant(ACME).get(job)
                if record is None or record.status is not Status.RUNNING:
                    return False
            return all((runs.of[job] > 1) == ((job, 1) in runs.stopped) for job in jobs)
        return False

    await eventually(settled, what="the worker's return")


async def final(store: Store, job: JobId) -> JobRecord:
    async def ended() -> bool:
        record = await store.tenant(ACME).get(job)
        return record is not None and record.status.final

    await eventually(ended, what=f"the end of {job}")
    record = await store.tenant(ACME).get(job)
    assert record is not None
    return record

"""The bookkeeping of the poison run: the fate of each value, and how long the jobs of other tenants waited."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Any

import asyncpg
import pytest
from tests.cli.terminal import Answer
from tests.conftest import PATIENCE, eventually

from leasehold.errors import Conflict, InvalidInput
from leasehold.model.job import JobId, JobRecord, NewJob, TenantId, tenant_id
from leasehold.model.status import Status
from leasehold.operations.statuses import CONFLICT, NOT_FOUND, OK, USAGE
from leasehold.store import Store

VILLAIN = tenant_id("villain")
BYSTANDERS = (tenant_id("calm"), tenant_id("quiet"))
QUIET_JOBS = 100
TOO_LONG = 1.0
QUIET = "quiet"
SETTLING = timedelta(seconds=30)

Call = Callable[..., Awaitable[Any]]
Entry = Callable[[], Awaitable[None]]


@dataclass
class Waits:
    """How long the bystanders' jobs waited, in seconds, from the call of enqueue to the first line of the handler."""

    seconds: list[float] = field(default_factory=list)

    @property
    def too_long(self) -> int:
        return sum(wait > TOO_LONG for wait in self.seconds)

    @property
    def share(self) -> float:
        return self.too_long / max(1, len(self.seconds))

    def __str__(self) -> str:
        longest = max(self.seconds, default=0.0)
        return f"{self.too_long} of {len(self.seconds)} waits over {TOO_LONG:g} s, the longest {longest:.3f} s"


@dataclass
class Run:
    """Counts the fate of each value, and remembers the jobs that were accepted."""

    store: Store
    counts: Counter[str] = field(default_factory=Counter)
    jobs: list[tuple[TenantId, JobId]] = field(default_factory=list)
    settled: dict[tuple[TenantId, JobId], JobRecord] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    latest: object = None

    async def put(self, entry: str, call: Call, *what: Any) -> None:
        """Passes one value through a entry. Only an error that blames the input counts as a refusal."""
        self.counts[entry] += 1
        self.latest = (entry, *what)
        try:
            await call(*what)
        except (InvalidInput, Conflict):
            self.counts["refused"] += 1
        except asyncpg.PostgresError as error:
            if not _blames_the_input(error):
                self.fail(entry, what, error)
            self.counts["refused"] += 1
        except Exception as error:
            self.fail(entry, what, error)
        else:
            self.counts["taken"] += 1

    async def put_all(self, entry: str, verbs: Sequence[tuple[Sequence[Any], Sequence[Call]]]) -> None:
        """Passes each value through each call beside it."""
        for values, calls in verbs:
            for value, call in product(values, calls):
                await self.put(entry, call, value)

    def fail(self, entry: str, what: object, error: object) -> None:
        try:
            shown = f"{what!r:.200}"
        except Exception:
            shown = object.__repr__(what)
        self.wrong.append(f"{entry}: {shown}: {type(error).__name__}: {error!s:.300}")

    async def enqueue(self, tenant: TenantId, **values: Any) -> JobId:
        (placed,) = await self.store.tenant(tenant).enqueue([NewJob(**{"definition": "taken"} | values)])
        return await self.accepted(tenant, placed.id)

    async def accepted(self, tenant: TenantId, job: JobId) -> JobId:
        self.jobs.append((tenant, job))
        assert await self.store.tenant(tenant).get(job) is not None
        return job

    async def all_settled(self) -> None:
        """Returns once each accepted job has ended, or waits for a time more than a minute away.

        A job that does neither is a wrong result, and the run goes on.
        """
        open_jobs = {each for each in self.jobs if each not in self.settled}

        async def settled() -> bool:
            soon = await self.store.now() + timedelta(minutes=1)
            for tenant, job in list(open_jobs):
                record = await self.store.tenant(tenant).get(job)
                assert record is not None
                if record.status.final or (record.status is Status.QUEUED and record.scheduled_for > soon):
                    self.settled[tenant, job] = record
                    open_jobs.discard((tenant, job))
            return not open_jobs

        try:
            await eventually(settled, within=SETTLING)
        except pytest.fail.Exception:
            for tenant, job in open_jobs:
                record = await self.store.tenant(tenant).get(job)
                assert record is not None
                self.settled[tenant, job] = record
                self.wrong.append(f"a job neither ended nor waits: {record!r:.1000}")

    # ------------------------------------------------------------------------------------------------- the bystanders

    async def bystander(self, tenant: TenantId, waits: Waits, over: Callable[[], bool]) -> None:
        """Enqueues one job after the other. The handler returns when it began: all processes share that clock."""
        handle = self.store.tenant(tenant)
        while not over():
            began = time.monotonic()
            (placed,) = await handle.enqueue([NewJob(definition="small")])
            record = await handle.wait_until_final(placed.id, PATIENCE)
            assert record is not None, f"a job of {tenant} did not end within {PATIENCE}, after {self.latest!r:.300}"
            assert record.status is Status.SUCCEEDED, record
            waits.seconds.append(record.result - began)

    async def quiet_phase(self, waits: Waits, jobs: int = QUIET_JOBS) -> None:
        enough = len(waits.seconds) + jobs
        async with asyncio.TaskGroup() as group:
            for tenant in BYSTANDERS:
                group.create_task(self.bystander(tenant, waits, lambda: len(waits.seconds) >= enough))

    @asynccontextmanager
    async def while_others_work(self, waits: Waits) -> AsyncIterator[None]:
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for tenant in BYSTANDERS:
                group.create_task(self.bystander(tenant, waits, over.is_set))
            try:
                yield
            finally:
                over.set()

    async def pass_entries(self, entries: dict[str, Entry]) -> dict[str, Waits]:
        """Passes each entry in a phase of its own, and a quiet phase before each. Returns the waits of the phases."""
        waits = {name: Waits() for name in (QUIET, *entries)}
        for name, entry in entries.items():
            await self.quiet_phase(waits[QUIET])
            async with self.while_others_work(waits[name]):
                await entry()
                await self.all_settled()
        return waits


def slow_entries(waits: dict[str, Waits]) -> list[str]:
    """Returns the entries that made bystanders wait too long, and more often than in the quiet phases between."""
    return [name for name, each in waits.items() if each.share > waits[QUIET].share]


def require_answered(answer: Answer) -> None:
    """Raises InvalidInput if the command refused its input, and fails if it ended in any way but these two."""
    blamed = "LH-1" in answer.err or "LH-5001" in answer.err or "Usage" in answer.err
    if answer.code in (USAGE, NOT_FOUND, CONFLICT) and blamed:
        raise InvalidInput(answer.err, fix="")
    assert answer.code == OK, f"exit {answer.code}: {answer.out:.300} {answer.err:.300}"


def _blames_the_input(error: asyncpg.PostgresError) -> bool:
    """Postgres itself refuses values that are not of the column's type (class 22), break a check (23) or limit (54).

    Leasehold's functions refuse with the number of their code: L1014 is LH-1014.
    """
    return error.sqlstate is not None and error.sqlstate.startswith(("22", "23", "54", "L1"))

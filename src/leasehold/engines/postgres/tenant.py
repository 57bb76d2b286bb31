"""A tenant's jobs in Postgres. One method adds the tenant to every statement, and no statement here lacks it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from asyncpg import Record
from uuid_utils import uuid7

from leasehold.engines.postgres import definition_rows, drivers, pages, rows
from leasehold.engines.postgres.bulk_transaction import BulkTransaction
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.enqueue_call import EnqueueCall, enqueue_call
from leasehold.engines.postgres.plain_jobs import PlainJobs, has_only_defaults
from leasehold.engines.postgres.results import RESULT_FALLBACK, Results
from leasehold.errors import InvalidInput, UnknownTenant, Unreachable
from leasehold.model import payload as payloads
from leasehold.model.bounds import MAX_PRIORITY, MIN_PRIORITY, problems_of_duration, problems_of_integer
from leasehold.model.definition import Registered
from leasehold.model.duration import Duration, as_duration, read_duration
from leasehold.model.job import Attempt, EnqueueResult, JobId, JobRecord, LogLine, NewJob, TenantId, job_id
from leasehold.model.status import Status
from leasehold.store import CancelAnswer, Filter, Page, RescheduleAnswer, RetryAnswer

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

# A job may move from one table to the other while a statement looks for it; then the store asks again. Each time
# another session must have moved the job, so a few tries are enough.
TRIES = 5
LINES_AT_ONCE = 1000

# Seconds between two looks at a tenant's new row while another open transaction holds it.
SECONDS_BETWEEN_LOOKS = 1.0

Answer = TypeVar("Answer", bound=StrEnum)


class KnownTenants:
    """Tenants whose row is known to exist, and when to look again for a row that another transaction is adding."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._look_again: dict[TenantId, float] = {}
        self.rows: set[TenantId] = set()

    def should_look(self, tenant: TenantId) -> bool:
        return tenant not in self.rows and self._monotonic() >= self._look_again.get(tenant, 0.0)

    def look_later(self, tenant: TenantId) -> None:
        self._look_again[tenant] = self._monotonic() + SECONDS_BETWEEN_LOOKS

    def add(self, tenant: TenantId) -> None:
        self._look_again.pop(tenant, None)
        self.rows.add(tenant)


class PostgresTenantJobs:
    def __init__(self, database: Database, tenant: TenantId, results: Results, known: KnownTenants) -> None:
        self._database = database
        self._tenant = tenant
        self._results = results
        self._known = known

    async def _fetch(self, name: str, /, **values: Any) -> list[Record]:
        """Sends a statement of the tenant, and adds the tenant to it: every read and change goes through here."""
        return await self._database.fetch(f"tenant/{name}", tenant=self._tenant, **values)

    # ----------------------------------------------------------------------------------------------------- enqueue

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        """Enqueues jobs. A second caller with the same dedupe key waits for the first one's commit, then gets its
        job.

        Under REPEATABLE READ that raises TransactionConflict instead: run the transaction again.
        """
        if not jobs:
            return []
        if within is not None:
            return await drivers.join(within).aplace(await self.prepare(jobs))
        if len(jobs) == 1 and has_only_defaults(jobs[0]):
            return await self._enqueue_one(jobs[0])
        if (plain := PlainJobs.of(jobs)) is not None:
            return await self._enqueue_plain(plain)
        await self._admit()
        with self._database.translated():
            async with self._database.connection() as connection:
                return await self._enqueue_any(jobs, connection)

    @asynccontextmanager
    async def bulk_transaction(self) -> AsyncIterator[BulkTransaction]:
        await self._admit()
        enqueue_any = partial(self._enqueue_any, wakes=False)
        async with BulkTransaction(self._database, self._tenant, enqueue_any) as bulk:
            yield bulk

    async def prepare(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> EnqueueCall:
        call = replace(self._call(jobs), wakes=wakes)
        await self._admit()
        return call

    def prepare_known(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> EnqueueCall | None:
        return replace(self._call(jobs), wakes=wakes) if self._tenant in self._known.rows else None

    async def _enqueue_one(self, job: NewJob) -> list[EnqueueResult]:
        """Enqueues one plain job, as most calls do: one statement without a transaction around it, and few steps."""
        new, payload = JobId(str(uuid7())), payloads.encode(job.payload)
        if self._tenant not in self._known.rows:
            await self._admit()
        with self._database.translated():
            async with self._database.connection() as connection:
                if await self._database.fetch_on(
                    connection,
                    "tenant/enqueue_one",
                    tenant=self._tenant,
                    id=new,
                    definition=job.definition,
                    version=job.version,
                    payload=payload,
                    source=job.source.value,
                ):
                    return [EnqueueResult(new, created=True)]
                return await self._enqueue_any([job], connection)  # refused: the general way tells why

    async def _enqueue_plain(self, plain: PlainJobs) -> Sequence[EnqueueResult]:
        """Enqueues by one statement without a transaction around it, unless one statement can't hold them."""
        if plain.too_large:
            async with self.bulk_transaction() as bulk:
                return await bulk.place(plain)
        await self._admit()
        with self._database.translated():
            async with self._database.connection() as connection:
                if await self._database.fetch_on(
                    connection, "tenant/enqueue_plain_jobs", tenant=self._tenant, wakes=True, **plain.columns()
                ):
                    return plain.placed()
                return await self._enqueue_any(plain.jobs, connection)

    async def _enqueue_any(
        self, jobs: Sequence[NewJob], connection: "Connection", *, wakes: bool = True
    ) -> list[EnqueueResult]:
        """Enqueues jobs of every kind by one statement: the database resolves keys and ids."""
        call = self._call(jobs)
        return call.answered(
            await self._database.fetch_on(
                connection, "tenant/enqueue_jobs", tenant=self._tenant, jobs=call.jobs, wakes=wakes
            )
        )

    def _call(self, jobs: Sequence[NewJob]) -> EnqueueCall:
        statement = self._database.statement("tenant/enqueue_jobs")
        return enqueue_call(statement, self._database.schema, self._tenant, jobs)

    async def _admit(self) -> None:
        if not self._known.should_look(self._tenant):
            return
        try:
            ((accepted,),) = await self._fetch("ensure_tenant")
        except Unreachable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            self._known.look_later(self._tenant)
            return
        if not accepted:
            raise UnknownTenant(
                f"tenant {self._tenant!r} was never registered, and strict tenants are on. Nothing was enqueued.",
                fix=f"Correct its name, or run: leasehold tenants --add {self._tenant}",
            )
        self._known.add(self._tenant)

    # -------------------------------------------------------------------------------------------------------- read

    async def get(self, job: JobId) -> JobRecord | None:
        found = await self._fetch("get", jobs=[job_id(job)])
        return rows.job(found[0]) if found else None

    async def get_many(self, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        return [rows.job(row) for row in await self._fetch("get", jobs=[job_id(job) for job in jobs])]

    async def find(self, where: Filter, cursor: str | None, limit: int) -> Page:
        asked = pages.one_more_than(limit)
        found = await self._fetch("find", up_to=pages.behind(cursor), limit=asked, **pages.filtered(where))
        return pages.page(found, limit, cursor=lambda job: job.id)

    async def counts(self, cap: int) -> Mapping[Status, int]:
        return {Status(row["status"]): row["count"] for row in await self._fetch("counts", cap=cap)}

    async def attempts(self, job: JobId) -> Sequence[Attempt]:
        return [rows.attempt(row) for row in await self._fetch("attempts", job=job_id(job))]

    async def lines(self, job: JobId, attempt: int, after: int = 0) -> Sequence[LogLine]:
        found = await self._fetch("lines", job=job_id(job), attempt=attempt, after=after, limit=LINES_AT_ONCE)
        return [rows.line(row) for row in found]

    async def last_lines(self, job: JobId, since: int, limit: int) -> Sequence[tuple[int, LogLine]]:
        found = await self._fetch("last_lines", job=job_id(job), since=since, limit=limit)
        return [(row["attempt"], rows.line(row)) for row in found]

    async def definitions(self) -> Sequence[Registered]:
        return [definition_rows.registered(row) for row in await self._database.fetch("administration/definitions")]

    async def wait_until_final(self, job: JobId, wait: Duration) -> JobRecord | None:
        until = monotonic() + read_duration(wait).total_seconds()
        await self._results.listen()
        await self._ask_to_be_told(job)
        while True:
            round_ = self._results.round()
            record = await self._results.look(self._tenant, job_id(job))
            if record is None or record.status.final:
                return record
            left = until - monotonic()
            if left <= 0:
                return None
            await _wait_for(round_, min(left, RESULT_FALLBACK.total_seconds()))
            await self._results.listen()

    async def _ask_to_be_told(self, job: JobId) -> None:
        """Marks the job as awaited. A role that may only read can't, and sees the end at the next fallback look."""
        try:
            await self._fetch("await", job=job_id(job))
        except InvalidInput as error:
            if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
                raise

    # ------------------------------------------------------------------------------------------------------ change

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        return await self._asked(jobs, CancelAnswer, lambda some: self._fetch("cancel", jobs=some))

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        attempts = {job_id(job): attempt for job, attempt in seen.items()}
        return await self._asked(
            tuple(seen),
            RetryAnswer,
            lambda some: self._fetch("retry", jobs=some, attempts=[attempts[job] for job in some]),
        )

    async def reschedule(
        self, jobs: Sequence[JobId], delay: Duration | None = None, priority: int | None = None
    ) -> Mapping[JobId, RescheduleAnswer]:
        wait = as_duration(delay)
        if problems := list(_problems_of_move(wait, priority)):
            raise InvalidInput(
                f"The jobs can't be moved: {'; '.join(problems)}.", fix="Nothing was changed. Correct the values."
            )
        return await self._asked(
            jobs,
            RescheduleAnswer,
            lambda some: self._fetch("reschedule", jobs=some, delay=wait, priority=priority),
        )

    async def _asked(
        self,
        jobs: Sequence[JobId],
        answers: type[Answer],
        ask: Callable[[list[JobId]], Awaitable[list[Record]]],
    ) -> dict[JobId, Answer]:
        """Returns each job's answer, in the order asked. Asks again for a job that moved during the look."""
        open_ = sorted({job_id(job) for job in jobs})
        found: dict[JobId, Answer] = {}
        for _ in range(TRIES):
            if not open_:
                break
            found |= {JobId(str(row["id"])): answers(row["answer"]) for row in await ask(open_)}
            open_ = [job for job in open_ if job not in found]
        unknown = answers("unknown")
        return {job: found.get(job_id(job), unknown) for job in jobs}


def _problems_of_move(delay: Any, priority: Any) -> Iterator[str]:
    if delay is not None:
        yield from problems_of_duration("delay", delay)
    if priority is not None:
        yield from problems_of_integer("priority", priority, MIN_PRIORITY, MAX_PRIORITY, ", lower runs first")


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Waits without asyncio.wait_for, which until Python 3.12 swallows a cancel that comes with the event."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()

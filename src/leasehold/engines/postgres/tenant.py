"""A tenant's jobs in Postgres. One method adds the tenant to every statement, and no statement here lacks it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from time import monotonic
from typing import Any, TypeVar

import asyncpg
from asyncpg import Record

from leasehold.engines.postgres import definition_rows, fact_rows, looks, pages, rows, series, usage
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.enqueue import KnownTenants, PostgresEnqueue
from leasehold.engines.postgres.results import RESULT_FALLBACK, Results
from leasehold.errors import InvalidInput
from leasehold.model.bounds import MAX_PRIORITY, MIN_PRIORITY, problems_of_duration, problems_of_integer
from leasehold.model.definition import Registered
from leasehold.model.duration import Duration, as_duration, read_duration
from leasehold.model.facts import COUNTED_AHEAD, JobFacts, LastWorker
from leasehold.model.job import Attempt, JobId, JobRecord, LineKind, LogLine, TenantId, job_id
from leasehold.model.series import Figure, Window
from leasehold.model.status import Status
from leasehold.model.usage import Dimension, UsageQuery, UsageRow
from leasehold.runtime.supervise import wait_at_most
from leasehold.store import CancelAnswer, ErrorGroups, Filter, Page, RescheduleAnswer, RetryAnswer

# A job may move from one table to the other while a statement looks for it; then the store asks again. Each time
# another session must have moved the job, so a few tries are enough.
TRIES = 5
LINES_AT_ONCE = 1000
LISTED_WORKERS = 100
COUNTED_RUNNING = 10_000
LOOKED_AT_ENDED = 500

Answer = TypeVar("Answer", bound=StrEnum)


class PostgresTenantJobs(PostgresEnqueue):
    def __init__(self, databases: TenantDatabases, tenant: TenantId, results: Results, known: KnownTenants) -> None:
        super().__init__(databases.of(tenant), tenant, known)
        self._whole_database = databases.whole
        self._results = results

    # -------------------------------------------------------------------------------------------------------- read

    async def get(self, job: JobId) -> JobRecord | None:
        found = await self._fetch("get", jobs=[job_id(job)])
        return rows.job(found[0]) if found else None

    async def get_many(self, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        return [rows.job(row) for row in await self._fetch("get", jobs=[job_id(job) for job in jobs])]

    async def find(self, where: Filter, cursor: str | None, limit: int) -> Page:
        if where.traits is not None:
            return await looks.find(self._fetch, where, cursor, limit)
        asked, up_to = pages.one_more_than(limit), pages.behind(cursor)
        if where.error_group is not None:
            columns = pages.columns_of_group(where)
            found = await self._fetch("find_in_error_group", up_to=up_to, limit=asked, **columns)
        else:
            found = await self._fetch("find", up_to=up_to, limit=asked, **pages.filter_columns(where))
        return pages.page(found, limit, cursor=lambda job: job.id)

    async def counts(self, cap: int) -> Mapping[Status, int]:
        return {Status(row["status"]): row["count"] for row in await self._fetch("counts", cap=cap)}

    async def error_groups(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        asked = None if only is None else bytes.fromhex(only)
        found = await self._fetch("error_groups", limit=pages.one_more_than(limit), counted=counted, only=asked)
        return rows.error_groups(found, limit, counted)

    async def taken_keys(self, jobs: Sequence[JobId]) -> frozenset[JobId]:
        found = await self._fetch("taken_keys", jobs=[job_id(job) for job in jobs]) if jobs else ()
        return frozenset(JobId(str(row["id"])) for row in found)

    async def oldest_queued(self) -> datetime | None:
        found = await self._fetch("oldest_queued")
        return found[0]["queued_at"] if found else None

    async def attempts(self, job: JobId) -> Sequence[Attempt]:
        return [rows.attempt(row) for row in await self._fetch("attempts", job=job_id(job))]

    async def lines(self, job: JobId, attempt: int, after: int = 0) -> Sequence[LogLine]:
        found = await self._fetch("lines", job=job_id(job), attempt=attempt, after=after, limit=LINES_AT_ONCE)
        return [rows.line(row) for row in found]

    async def last_lines(
        self, job: JobId, since: int, limit: int, kind: LineKind | None = None
    ) -> Sequence[tuple[int, LogLine]]:
        found = await self._fetch(
            "last_lines", job=job_id(job), since=since, limit=limit, kind=None if kind is None else kind.value
        )
        return [(row["attempt"], rows.line(row)) for row in found]

    async def facts(self, job: JobId) -> JobFacts | None:
        """Reads the job, its lane and the workers, by three statements: two of them look beyond the tenant, and have
        the rights of the connection's own role. Where no worker serves the job, a fourth one finds the last that did.
        """
        found = await self._fetch("facts", job=job_id(job), most=COUNTED_AHEAD)
        if not found:
            return None
        definition = found[0]["definition"]
        (lane,) = await self._whole_database.fetch(
            "administration/lanes", definitions=[definition], tenants=[self._tenant]
        )
        workers = await self._whole_database.fetch(
            "fleet/lane_workers",
            definition=definition,
            tenant=self._tenant,
            most=COUNTED_RUNNING,
            limit=LISTED_WORKERS,
        )
        state = fact_rows.lane(lane, definition, self._tenant)
        last = None if state.workers or state.elsewhere else await self._last_worker(definition)
        return fact_rows.facts(found[0], state, [fact_rows.worker(row) for row in workers], last)

    async def _last_worker(self, definition: str) -> LastWorker | None:
        found = await self._fetch("last_worker", definition=definition, most=LOOKED_AT_ENDED)
        return fact_rows.last_worker(found[0]) if found else None

    async def definitions(self) -> Sequence[Registered]:
        found = await self._database.fetch("administration/definitions")
        return [definition_rows.read_registered(row) for row in found]

    async def figures(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        name = series.of_window("series", window)
        return [
            series.figure(row) for row in await self._fetch(name, definitions=definitions, **series.bounds(window))
        ]

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        found = await self._fetch("usage", **usage.values(query, limit))
        named = self._tenant if Dimension.TENANT in query.by else None
        return [usage.usage_row(row, named) for row in found]

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
            await wait_at_most(round_, min(left, RESULT_FALLBACK.total_seconds()))
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
        return await self._ask_until_answered(jobs, CancelAnswer, lambda some: self._fetch("cancel", jobs=some))

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        attempts = {job_id(job): attempt for job, attempt in seen.items()}
        return await self._ask_until_answered(
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
        return await self._ask_until_answered(
            jobs,
            RescheduleAnswer,
            lambda some: self._fetch("reschedule", jobs=some, delay=wait, priority=priority),
        )

    async def _ask_until_answered(
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

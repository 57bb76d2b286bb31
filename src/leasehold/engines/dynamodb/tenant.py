"""A tenant's jobs in DynamoDB. No key of an item behind this door is made without the tenant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn

from leasehold.engines.dynamodb import results
from leasehold.engines.dynamodb.changes import Changes
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.enqueue import Enqueueing
from leasehold.engines.dynamodb.find import Listing, page, page_of_look, read_cursor, require_limit
from leasehold.engines.dynamodb.items import read_attempt, read_job, status_of
from leasehold.engines.dynamodb.keys import JOB, job_key, job_pk
from leasehold.engines.dynamodb.lanes import Lanes
from leasehold.engines.dynamodb.logs import Logs
from leasehold.engines.dynamodb.refusals import no_caller_transaction, no_series
from leasehold.engines.dynamodb.table import Table, gather
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.usage import DynamoUsage
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import InvalidInput
from leasehold.model.bounds import MAX_PRIORITY, MIN_PRIORITY, problems_of_duration, problems_of_integer
from leasehold.model.definition import Registered
from leasehold.model.duration import Duration, as_duration, read_duration
from leasehold.model.facts import JobFacts
from leasehold.model.job import (
    Attempt,
    EnqueueResult,
    JobId,
    JobRecord,
    LineKind,
    LogLine,
    NewJob,
    TenantId,
    WorkerId,
    job_id,
)
from leasehold.model.series import Figure, Window
from leasehold.model.status import Status
from leasehold.model.usage import UsageQuery, UsageRow
from leasehold.store import CancelAnswer, ErrorGroups, Filter, Page, RescheduleAnswer, RetryAnswer


class DynamoTenantJobs(Enqueueing):
    def __init__(
        self,
        table: Table,
        clock: Clock,
        tenant: TenantId,
        tenants: Tenants,
        definitions: Definitions,
        poke: Callable[[], None],
        tell_cancel: Callable[[WorkerId], None],
        lanes: Lanes,
        usage: DynamoUsage,
    ) -> None:
        super().__init__(table, clock, tenant, tenants, definitions, poke)
        self._changes = Changes(table, tenant, definitions)
        self._listing = Listing(table)
        self._logs = Logs(table, clock)
        self._tell_cancel = tell_cancel
        self._lanes = lanes
        self._usage = usage

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        if within is not None:
            raise no_caller_transaction()
        return await super().enqueue(jobs)

    async def prepare(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> NoReturn:
        raise no_caller_transaction()

    def prepare_known(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> None:
        raise no_caller_transaction()

    # -------------------------------------------------------------------------------------------------------- read

    async def get(self, job: JobId) -> JobRecord | None:
        found = await self.get_many([job])
        return found[0] if found else None

    async def get_many(self, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        found = await self._table.get_many(job_key(self._tenant, job_id(job)) for job in jobs)
        return await self._records(list(found.values()))

    async def _records(self, found: Sequence[Item]) -> list[JobRecord]:
        now = await self._clock.now()
        return [read_job(item, now) for item in await results.with_results(self._table, found)]

    async def find(self, where: Filter, cursor: str | None, limit: int) -> Page:
        require_limit(limit)
        before, now = read_cursor(cursor), await self._clock.now()
        if where.traits is not None:
            return page_of_look(*await self._listing.find_by_traits(self._tenant, where, before, limit, now), limit)
        return page(await self._listing.find(self._tenant, where, before, limit + 1, now), limit, lambda job: job.id)

    async def taken_keys(self, jobs: Sequence[JobId]) -> frozenset[JobId]:
        return await self._changes.taken_keys([job_id(job) for job in jobs], await self._clock.now())

    async def counts(self, cap: int) -> Mapping[Status, int]:
        return await self._listing.counts(self._tenant, cap)

    async def error_groups(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        return await self._listing.error_groups(self._tenant, limit, only, await self._clock.now())

    async def oldest_queued(self) -> datetime | None:
        return await self._listing.oldest_queued(self._tenant, await self._clock.now())

    async def attempts(self, job: JobId) -> Sequence[Attempt]:
        values = {"pk": job_pk(self._tenant, job_id(job)), "from": "attempt#", "until": JOB}
        listed = self._table.query("#PK = :pk AND #SK BETWEEN :from AND :until", values)
        found = [item async for item in listed]
        return [read_attempt(item) for item in found if item["SK"] != JOB or _tells_of_an_attempt(item)]

    async def lines(self, job: JobId, attempt: int, after: int = 0) -> Sequence[LogLine]:
        return await self._logs.lines(self._tenant, job_id(job), attempt, after)

    async def last_lines(
        self, job: JobId, since: int, limit: int, kind: LineKind | None = None
    ) -> Sequence[tuple[int, LogLine]]:
        return await self._logs.last_lines(self._tenant, job_id(job), since, limit, kind)

    async def facts(self, job: JobId) -> JobFacts | None:
        found = await self.get(job)
        if found is None:
            return None
        facts = await self._lanes.facts(found)
        if not found.status.final:
            return facts
        return replace(facts, key_holder=await self._changes.key_holder(found.id, facts.now))

    async def definitions(self) -> Sequence[Registered]:
        return await self._definitions.registered()

    async def figures(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        raise no_series()

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        return await self._usage.read(query, limit, self._tenant)

    async def wait_until_final(self, job: JobId, wait: Duration) -> JobRecord | None:
        seconds = read_duration(wait).total_seconds()
        item = await results.wait_until_final(self._table, job_key(self._tenant, job_id(job)), seconds)
        return None if item is None else (await self._records([item]))[0]

    # ------------------------------------------------------------------------------------------------------ change

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        ids, now = [job_id(job) for job in jobs], await self._clock.now()
        wanted = list(dict.fromkeys(ids))
        answers = dict(zip(wanted, await gather(self._changes.cancel(job, now) for job in wanted), strict=True))
        for _, worker in answers.values():
            if worker is not None:
                self._tell_cancel(worker)
        return {job: answers[id_][0] for job, id_ in zip(jobs, ids, strict=True)}

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        wanted = {job_id(job): attempt for job, attempt in seen.items()}
        now = await self._clock.now()
        found = await gather(self._changes.retry(job, attempt, now) for job, attempt in wanted.items())
        answers = dict(zip(wanted, found, strict=True))
        self._poke()
        return {job: answers[job_id(job)] for job in seen}

    async def reschedule(
        self, jobs: Sequence[JobId], delay: Duration | None = None, priority: int | None = None
    ) -> Mapping[JobId, RescheduleAnswer]:
        wait = as_duration(delay)
        if problems := list(_problems_of_move(wait, priority)):
            raise InvalidInput(
                f"The jobs can't be moved: {'; '.join(problems)}.", fix="Nothing was changed. Correct the values."
            )
        wanted, now = list(dict.fromkeys(job_id(job) for job in jobs)), await self._clock.now()
        found = await gather(self._changes.reschedule(job, wait, priority, now) for job in wanted)
        answers = dict(zip(wanted, found, strict=True))
        self._poke()
        return {job: answers[job_id(job)] for job in jobs}


def _tells_of_an_attempt(job: Item) -> bool:
    """Returns whether the job itself tells of an attempt: of the one that runs, or of the last if it ended so."""
    if status_of(job) is Status.RUNNING:
        return True
    return "attempt_status" in job and "last_attempt" not in job


def _problems_of_move(delay: Any, priority: Any) -> Iterator[str]:
    if delay is not None:
        yield from problems_of_duration("delay", delay)
    if priority is not None:
        yield from problems_of_integer("priority", priority, MIN_PRIORITY, MAX_PRIORITY, ", lower runs first")

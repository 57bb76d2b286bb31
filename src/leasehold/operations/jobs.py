"""Everything that a tenant can do with jobs besides enqueueing them: read, cancel, retry, run now, wait, follow."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from leasehold.errors import DuplicateJob, LeaseholdError, UnknownJob, WrongState
from leasehold.model.audit import Actor
from leasehold.model.explain import waiting_reasons
from leasehold.model.job import Attempt, JobId, JobRecord, LogLine, NewJob, TenantId
from leasehold.model.status import DisplayState, Status
from leasehold.model.tries import FREE, first_attempt, try_numbers
from leasehold.operations.audit import audited
from leasehold.operations.lookup import Address, list_matching
from leasehold.store import (
    Administration,
    CancelAnswer,
    Filter,
    Fleet,
    Page,
    RescheduleAnswer,
    RetryAnswer,
    Store,
    TenantJobs,
)

T = TypeVar("T")

LAST_LINES = 10
FOR_EVER = timedelta(days=3650)
# Workers write log lines at most once a second. The end of a job needs no polling: a wake announces it.
BETWEEN_READS = timedelta(seconds=0.5)

NumberedLine = tuple[int, int, LogLine]
"""The attempt, the try that it is, and a log line of it."""


# ------------------------------------------------------------------------------------------------------------- read


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why ready jobs do not start, by lane (definition, tenant)."""

    by_lane: Mapping[tuple[str, TenantId], Sequence[str]]

    def of(self, job: JobRecord) -> Sequence[str]:
        return self.by_lane.get((job.definition, job.tenant), ()) if job.display is DisplayState.READY else ()


@dataclass(frozen=True, slots=True)
class Story:
    """A job with its attempts, the try that each attempt was, and the last log lines of the latest try."""

    job: JobRecord
    held_by: Sequence[str]
    attempts: Sequence[Attempt]
    numbers: Mapping[int, int]
    lines: Sequence[NumberedLine]


async def get(store: Fleet, tenant: TenantId, job: JobId) -> JobRecord:
    """Returns the job as it stands. Raises UnknownJob."""
    record = await store.tenant(tenant).get(job)
    if record is None:
        raise unknown_job(tenant, job)
    return record


def unknown_job(tenant: TenantId, job: JobId) -> UnknownJob:
    return UnknownJob(
        f'tenant "{tenant}" has no job {job}. Nothing was changed.',
        fix="Check the id and the tenant; jobs are pruned when their retention is over.",
    )


async def list_page(
    store: Store, tenant: TenantId | None, filters: Sequence[Filter], cursor: str | None, limit: int
) -> tuple[Page, Reasons]:
    """Returns jobs that match any of the filters, newest first, of one tenant or of all, and why they wait."""
    find = store.tenant(tenant).find if tenant else store.find_all_tenants
    page = await list_matching(find, filters, cursor, limit)
    return page, await read_reasons(store, page.jobs)


async def counts(store: Fleet, tenant: TenantId, cap: int) -> Mapping[Status, int]:
    """Counts a tenant's jobs by status, each status up to `cap`."""
    return await store.tenant(tenant).counts(cap)


@dataclass(frozen=True, slots=True)
class Summary:
    """Jobs of a tenant by status, and the oldest that waits; its age is by the engine's clock, in seconds."""

    counts: Mapping[Status, int]
    oldest_queued_at: datetime | None
    oldest_queued_age: float | None

    @property
    def running(self) -> int:
        return self.counts.get(Status.RUNNING, 0)


async def summary(store: Store, tenant: TenantId, cap: int) -> Summary:
    """Counts a tenant's jobs by status, each up to `cap`, and finds the oldest that waits."""
    found = await counts(store, tenant, cap)
    oldest = await store.tenant(tenant).oldest_queued() if found.get(Status.QUEUED) else None
    if oldest is None:
        return Summary(found, None, None)
    return Summary(found, oldest, max(0.0, (await store.now() - oldest).total_seconds()))


async def read_reasons(store: Administration, jobs: Sequence[JobRecord]) -> Reasons:
    """Reads why the ready ones of these jobs do not start, by one statement; by none if none is ready."""
    lanes = sorted({(job.definition, job.tenant) for job in jobs if job.display is DisplayState.READY})
    states = await store.lanes(lanes) if lanes else ()
    return Reasons({lane: waiting_reasons(state) for lane, state in zip(lanes, states, strict=True)})


async def story(store: Store, address: Address) -> Story:
    """Reads a job, its attempts and its last log lines, by three statements; a ready job needs one more.

    Raises UnknownJob.
    """
    record = address.record or await get(store, address.tenant, address.job)
    jobs = store.tenant(record.tenant)
    attempts = await jobs.attempts(record.id)
    numbers = try_numbers(attempts, first_attempt(record, attempts))
    lines = await lines_of_latest(jobs, record, numbers, LAST_LINES)
    reasons = await read_reasons(store, [record])
    return Story(record, reasons.of(record), attempts, numbers, lines)


async def lines_of_latest(
    jobs: TenantJobs, record: JobRecord, numbers: Mapping[int, int], limit: int
) -> Sequence[NumberedLine]:
    """Returns the last lines of the latest try; `numbers` has the try of each attempt."""
    latest = numbers.get(record.attempt)
    if not latest:
        return []
    since = min(attempt for attempt, number in numbers.items() if number == latest)
    return [(attempt, latest, line) for attempt, line in await jobs.last_lines(record.id, since, limit)]


# ----------------------------------------------------------------------------------------------------------- change


async def cancel(store: Store, tenant: TenantId, job: JobId, actor: Actor | None = None) -> CancelAnswer:
    """Cancels a waiting job; asks the worker of a running one to stop it. Raises WrongState for a final job.

    With an actor, a person has asked for it: the audit log says so.
    """
    return await _change(store, tenant, job, "cancel", actor, lambda: _cancel(store, tenant, job))


async def _cancel(store: Fleet, tenant: TenantId, job: JobId) -> CancelAnswer:
    (answer,) = (await store.tenant(tenant).cancel([job])).values()
    if answer not in (CancelAnswer.CANCELED, CancelAnswer.REQUESTED):
        raise _wrong_state(await get(store, tenant, job), "canceled", "A job that has ended stays as it is.")
    return answer


async def retry(store: Store, tenant: TenantId, job: JobId, actor: Actor | None = None) -> None:
    """Queues a final job again, with all its tries. Raises WrongState, or DuplicateJob if its key is held."""
    await _change(store, tenant, job, "retry", actor, lambda: _retry(store, tenant, job))


async def _retry(store: Fleet, tenant: TenantId, job: JobId) -> None:
    seen = await get(store, tenant, job)
    if not seen.status.final:
        raise _wrong_state(seen, "retried", "It is not over yet: let it end, or cancel it first.")
    (answer,) = (await store.tenant(tenant).retry({seen.id: seen.attempt})).values()
    if answer is RetryAnswer.DUPLICATE:
        raise DuplicateJob(
            f"job {seen.id} can't be retried: another active job holds its dedupe key. Nothing was changed.",
            fix="Let that one do the work, or cancel it first.",
        )
    if answer is not RetryAnswer.QUEUED:
        fix = "Someone else retried it first: look at it again."
        raise _wrong_state(await get(store, tenant, job), "retried", fix)


async def run_now(store: Store, tenant: TenantId, job: JobId, actor: Actor | None = None) -> None:
    """Makes a waiting job due now. Raises WrongState for any other job."""
    await _change(store, tenant, job, "run_now", actor, lambda: _run_now(store, tenant, job))


async def _run_now(store: Fleet, tenant: TenantId, job: JobId) -> None:
    moved = await store.tenant(tenant).reschedule([job], delay=timedelta())
    if RescheduleAnswer.RESCHEDULED not in moved.values():
        fix = "Only a waiting job can be; retry a job that has ended."
        raise _wrong_state(await get(store, tenant, job), "run now", fix)


async def reschedule(
    store: Store,
    tenant: TenantId,
    job: JobId,
    delay: timedelta | None,
    priority: int | None,
    actor: Actor | None = None,
) -> None:
    """Changes when a waiting job is due, or its priority; None changes nothing. Raises WrongState for any other."""
    if priority is not None:
        NewJob(definition="", priority=priority)  # refuses a priority that a job can't have

    async def move() -> None:
        moved = await store.tenant(tenant).reschedule([job], delay=delay, priority=priority)
        if RescheduleAnswer.RESCHEDULED not in moved.values():
            fix = "Only a waiting job can be; retry a job that has ended."
            raise _wrong_state(await get(store, tenant, job), "rescheduled", fix)

    await _change(store, tenant, job, "reschedule", actor, move)


async def _change(
    store: Store, tenant: TenantId, job: JobId, verb: str, actor: Actor | None, change: Callable[[], Awaitable[T]]
) -> T:
    async def read() -> dict[str, Any]:
        record = await get(store, tenant, job)
        return {
            "definition": record.definition,
            "state": record.display.value,
            "scheduled_for": record.scheduled_for,
            "cancel_requested_at": record.cancel_requested_at,
        }

    return await audited(store, actor, f"job.{verb}", f"job {job}", change, read=read, tenant=tenant)


def _wrong_state(job: JobRecord, verb: str, fix: str) -> LeaseholdError:
    return WrongState(f"job {job.id} can't be {verb}: it is {job.display}. Nothing was changed.", fix=fix)


# ------------------------------------------------------------------------------------------------- wait and follow


async def wait(store: Fleet, tenant: TenantId, job: JobId, limit: timedelta) -> JobRecord | None:
    """Returns the job once it is final, or as it stands when the limit is over; None for an unknown job."""
    jobs = store.tenant(tenant)
    return await jobs.wait_until_final(job, limit) or await jobs.get(job)


async def read_lines(
    jobs: TenantJobs, job: JobId, only: int | None = None, first: int = 1
) -> AsyncGenerator[NumberedLine, None]:
    """Yields the lines so far, of all tries or of one; tries are counted from the attempt `first`."""
    for attempt, tries in try_numbers(await jobs.attempts(job), first).items():
        if only in (None, tries):
            async for line in _all_lines(jobs, job, attempt):
                yield attempt, tries, line


async def follow_lines(
    jobs: TenantJobs, job: JobId, only: int | None = None, first: int = 1
) -> AsyncGenerator[NumberedLine, None]:
    """Yields the lines so far and those that come, until the job is final (or that try is over)."""
    ending = asyncio.create_task(jobs.wait_until_final(job, FOR_EVER))
    last: Counter[int] = Counter()
    over: set[int] = set()
    try:
        while True:
            ended = ending.done()
            known = await jobs.attempts(job)
            numbers = try_numbers(known, first)
            attempts = [each for each in known if only in (None, numbers[each.number])]
            for attempt in attempts:
                if attempt.number not in over:
                    async for line in _all_lines(jobs, job, attempt.number, last[attempt.number]):
                        last[attempt.number] = line.number
                        yield attempt.number, numbers[attempt.number], line
            over |= {attempt.number for attempt in attempts if attempt.finished_at}
            is_over = any(attempt.finished_at and attempt.status not in FREE for attempt in attempts)
            if ended:
                await ending
            if ended or (only is not None and is_over):
                return
            await asyncio.wait({ending}, timeout=BETWEEN_READS.total_seconds())
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _all_lines(jobs: TenantJobs, job: JobId, attempt: int, after: int = 0) -> AsyncGenerator[LogLine, None]:
    """Yields all lines of an attempt after a line; the store returns them in pages."""
    while lines := await jobs.lines(job, attempt, after):
        for line in lines:
            yield line
        after = lines[-1].number

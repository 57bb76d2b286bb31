"""Reads a tenant's jobs for pages of an app: lists with reasons, attempts by try, log lines by a cursor, progress."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from leasehold.errors import InvalidInput
from leasehold.model.duration import Duration
from leasehold.model.job import Attempt, JobId, JobRecord, LineKind, LogLine, TenantId
from leasehold.model.tries import first_attempt, try_numbers
from leasehold.operations import views
from leasehold.operations.jobs import BETWEEN_READS, Reasons, get, list_page
from leasehold.store import Filter, Fleet, Store, TenantJobs

LINES_OF_A_PAGE = 1000


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first. `next` is the cursor of the following page; None: this was the last page."""

    jobs: Sequence[JobRecord]
    next: str | None
    reasons: Reasons

    def held_by(self, job: JobRecord) -> Sequence[str]:
        """Returns the reasons why a ready job does not start; empty if it waits for a free slot or is not ready."""
        return self.reasons.of(job)

    def why(self, job: JobRecord) -> str:
        """Returns one line about the job: when it is due, why it does not start, how long it runs, or its error."""
        return views.why(job, datetime.now(UTC), self.reasons.of(job))


@dataclass(frozen=True, slots=True)
class JobLine:
    """A log line or progress of a job, and the try that it belongs to. A worker numbers the lines of an attempt."""

    tries: int
    text: str
    kind: LineKind
    progress: float | None
    at: datetime | None
    attempt: int
    number: int


@dataclass(frozen=True, slots=True)
class LinePage:
    """Log lines, oldest first. `next` is the cursor of the lines after these, which may still be written.

    `ended`: the job has ended, and these are its last lines.
    """

    lines: Sequence[JobLine]
    next: str | None
    ended: bool


async def list_jobs(
    store: Store, tenant: TenantId, filters: Sequence[Filter], cursor: str | None, limit: int
) -> JobPage:
    """Returns a page of a tenant's jobs that match any of the filters, and why they wait: one statement for those."""
    page, reasons = await list_page(store, tenant, filters, cursor, limit)
    return JobPage(page.jobs, page.next, reasons)


async def attempts(store: Fleet, tenant: TenantId, job: JobId) -> Sequence[Attempt]:
    """Returns the attempts of a job, oldest first, each with the try that it was. Raises UnknownJob."""
    return await attempts_of(store, await get(store, tenant, job))


async def attempts_of(store: Fleet, record: JobRecord) -> Sequence[Attempt]:
    """Returns the attempts of a job that was read before."""
    found = await store.tenant(record.tenant).attempts(record.id)
    numbers = try_numbers(found, first_attempt(record, found))
    return [replace(attempt, tries=numbers[attempt.number]) for attempt in found]


async def lines(
    store: Fleet, tenant: TenantId, job: JobId, after: str | None = None, limit: int = LINES_OF_A_PAGE
) -> LinePage:
    """Returns lines of all tries after a cursor, at most so many. Raises UnknownJob, and InvalidInput."""
    seen = _read_cursor(after)
    record = await get(store, tenant, job)  # first: lines are written before the end of the job
    jobs = store.tenant(tenant)
    known = await jobs.attempts(record.id)
    numbers = try_numbers(known, first_attempt(record, known))
    found: list[JobLine] = []
    for attempt, tries in numbers.items():
        last = seen[1] if attempt == seen[0] else 0
        while attempt >= seen[0] and len(found) < limit and (more := await jobs.lines(record.id, attempt, last)):
            found += [_job_line(attempt, tries, line) for line in more]
            last = more[-1].number
    shown = found[:limit]
    place = (shown[-1].attempt, shown[-1].number) if shown else seen
    return LinePage(shown, f"{place[0]}-{place[1]}", record.status.final and len(shown) < limit)


async def last_lines(store: Fleet, tenant: TenantId, job: JobId, limit: int) -> LinePage:
    """Returns the last lines of the latest try, at most so many. Raises UnknownJob."""
    record = await get(store, tenant, job)
    return await tail(store, record, await store.tenant(tenant).attempts(record.id), limit)


async def next_lines(store: Fleet, tenant: TenantId, job: JobId, after: str | None) -> LinePage:
    """Returns the lines after a cursor; if there are none, waits a moment, or until the job has ended."""
    page = await lines(store, tenant, job, after)
    if page.lines or page.ended:
        return page
    await store.tenant(tenant).wait_until_final(job, BETWEEN_READS)
    return await lines(store, tenant, job, after)


async def tail(store: Fleet, record: JobRecord, attempts: Sequence[Attempt], limit: int) -> LinePage:
    """Returns the last lines of the latest try, oldest first; `next` is the cursor of the lines that follow them."""
    numbers = try_numbers(attempts, first_attempt(record, attempts))
    latest = numbers.get(record.attempt, 0)
    since = min((attempt for attempt, number in numbers.items() if number == latest), default=record.attempt)
    found = await store.tenant(record.tenant).last_lines(record.id, since, limit)
    lines = [_job_line(attempt, latest, line) for attempt, line in found]
    place = f"{lines[-1].attempt}-{lines[-1].number}" if lines else f"{since}-0"
    return LinePage(lines, place, record.status.final)


async def progress(store: Fleet, tenant: TenantId, job: JobId) -> JobLine | None:
    """Returns the last progress of the latest attempt; None if its handler told none. Raises UnknownJob."""
    return await progress_of(store, await get(store, tenant, job))


async def progress_of(store: Fleet, record: JobRecord) -> JobLine | None:
    """Returns the last progress of a job that was read before."""
    told = await store.tenant(record.tenant).last_lines(record.id, record.attempt, 1, LineKind.PROGRESS)
    return _job_line(told[0][0], record.tries, told[0][1]) if told else None


async def wait_until_final(jobs: TenantJobs, job: JobId, wait: Duration) -> JobRecord | None:
    """Returns the job once it is final; None when `wait` is over or the job is unknown."""
    return await jobs.wait_until_final(job, wait)


def _job_line(attempt: int, tries: int, line: LogLine) -> JobLine:
    return JobLine(tries, line.text, line.kind, line.progress, line.at, attempt, line.number)


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    attempt, dash, number = str(cursor).partition("-")
    if dash and all(part.isascii() and part.isdigit() and len(part) <= 9 for part in (attempt, number)):
        return int(attempt), int(number)
    raise InvalidInput(
        f"{str(cursor)[:80]!r} is not a cursor of log lines.", fix="Nothing was read. Pass `next` of a page before."
    )

"""All that the page of a job shows, read by a bounded number of statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.api import shown
from leasehold.config import process_redactor
from leasehold.console.ansi import Part, parts_of
from leasehold.console.job_rows import Row, row_of
from leasehold.console.pages import Visit
from leasehold.console.timeline import Timeline, timeline_of
from leasehold.console.tracebacks import own_code
from leasehold.model.access import Permission
from leasehold.model.error_group import GROUPED, error_group
from leasehold.model.explanation import CheckState, Explanation
from leasehold.model.job import Attempt, JobId, JobRecord, LineKind, TenantId, tenant_id
from leasehold.model.status import AttemptStatus, Status
from leasehold.operations import explain as explaining
from leasehold.operations import jobs, reading, views
from leasehold.operations.lookup import find_job
from leasehold.operations.reading import JobLine, LinePage
from leasehold.store import Filter, Store

TAIL = 200
SHOWN_ATTEMPTS = 20
RELATED = 6
_OWN_DETAILS = frozenset({"where", "traceback"})


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A log line as the page shows it."""

    cursor: str
    at: datetime | None
    kind: str
    parts: Sequence[Part]

    def as_document(self) -> dict[str, Any]:
        at = None if self.at is None else self.at.astimezone(UTC).isoformat(timespec="milliseconds")
        parts = [[part.text, part.classes] for part in self.parts]
        return {"cursor": self.cursor, "at": at, "kind": self.kind, "parts": parts}


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """An attempt, with its error as its reader may see it."""

    attempt: Attempt
    error: str | None
    hidden: bool
    own_trace: str | None
    trace: str | None
    details: Mapping[str, Any]

    @property
    def state(self) -> str:
        return self.attempt.status.value

    @property
    def took(self) -> timedelta | None:
        return None if self.attempt.finished_at is None else self.attempt.finished_at - self.attempt.started_at


@dataclass(frozen=True, slots=True)
class JobView:
    """The page of a job."""

    row: Row
    document: Mapping[str, Any]
    attempts: Sequence[ShownAttempt]
    timeline: Timeline | None
    why: Explanation | None
    lines: Sequence[ShownLine]
    cursor: str | None
    progress: JobLine | None
    related: Sequence[Row]
    error_group: str | None
    left_out: int

    @property
    def job(self) -> JobRecord:
        return self.row.job

    @property
    def is_over(self) -> bool:
        return self.job.status.final

    @property
    def can_retry(self) -> bool:
        return self.job.status.final

    @property
    def can_cancel(self) -> bool:
        return not self.job.status.final and self.job.cancel_requested_at is None

    @property
    def can_run_now(self) -> bool:
        return self.job.status is Status.QUEUED and not self.job.due


@dataclass(frozen=True, slots=True)
class _Read:
    record: JobRecord
    held_by: Sequence[str]
    attempts: Sequence[Attempt]
    lines: LinePage | None
    progress: JobLine | None
    why: Explanation | None
    related: Sequence[JobRecord]


async def tenant_of(visit: Visit, job: JobId) -> TenantId:
    """Returns whose job a page is about: of its scope, as the address names it, or by a look at all tenants."""
    if visit.area.tenant is not None:
        return visit.area.tenant
    if named := visit.request.query_params.get("tenant"):
        return tenant_id(named)
    return (await visit.context.ask(lambda store: find_job(store, job, None))).tenant


async def read_job(visit: Visit, job: JobId) -> JobView:
    """Reads a job with its attempts, the end of its log, why it waits, and related jobs. Raises UnknownJob."""
    owner = await tenant_of(visit, job)
    logs = visit.may(Permission.LOGS_READ)
    read = await visit.context.ask(lambda store: _read(store, owner, job, logs))
    lines = () if read.lines is None else [show_line(line) for line in read.lines.lines]
    return JobView(
        row_of(visit, read.record, read.held_by),
        shown.job(visit.context, read.record, read.held_by),
        [_show_attempt(visit, each) for each in reversed(read.attempts[-SHOWN_ATTEMPTS:])],
        timeline_of(read.record, read.attempts, datetime.now(UTC)),
        read.why,
        lines,
        None if read.lines is None else read.lines.next,
        None if read.progress is None else _redact(read.progress),
        [row_of(visit, each) for each in read.related],
        _error_group(read.record),
        max(len(read.attempts) - SHOWN_ATTEMPTS, 0),
    )


def _error_group(job: JobRecord) -> str | None:
    return error_group(job.definition, job.last_error_code, job.last_error) if job.status in GROUPED else None


async def _read(store: Store, owner: TenantId, job: JobId, logs: bool) -> _Read:
    record = await jobs.get(store, owner, job)
    attempts = await reading.attempts_of(store, record)
    lines = await reading.tail(store, record, attempts, TAIL) if logs else None
    is_running = record.status is Status.RUNNING
    progress = await reading.progress_of(store, record) if logs and is_running else None
    waits = record.status in (Status.QUEUED, Status.BLOCKED)
    why = await explaining.explain(store, owner, job) if waits else None
    reasons = await jobs.read_reasons(store, [record])
    related = await _read_related(store, record)
    return _Read(record, reasons.of(record), attempts, lines, progress, why, related)


async def _read_related(store: Store, record: JobRecord) -> Sequence[JobRecord]:
    """Reads jobs with the same correlation id, and those that were made of this one with changes."""
    found: dict[JobId, JobRecord] = {}
    for correlation in dict.fromkeys(each for each in (record.correlation_id, record.id) if each):
        page = await store.tenant(record.tenant).find(Filter(correlation_id=correlation), None, RELATED)
        found |= {each.id: each for each in page.jobs}
    if record.correlation_id and (first := _as_id(record.correlation_id)) and first not in found:
        found |= {each.id: each for each in await store.tenant(record.tenant).get_many([first])}
    found.pop(record.id, None)
    return list(found.values())[:RELATED]


def _as_id(text: str) -> JobId | None:
    return JobId(text) if len(text) == 36 and text.count("-") == 4 and text.replace("-", "").isalnum() else None


def _redact(line: JobLine) -> JobLine:
    return replace(line, text=process_redactor().text(line.text))


def show_line(line: JobLine) -> ShownLine:
    text = process_redactor().text(line.text)
    kind = "progress" if line.kind is LineKind.PROGRESS else line.kind.value
    if line.progress is not None:
        text = f"{line.progress:.0%}  {text}".rstrip()
    return ShownLine(f"{line.attempt}-{line.number}", line.at, kind, parts_of(text))


def _show_attempt(visit: Visit, attempt: Attempt) -> ShownAttempt:
    document = shown.attempt(visit.context, attempt)
    hidden = "error" in document["hidden"]
    details = document["details"] or {}
    trace = details.get("traceback")
    error = None if hidden else views.error_of(attempt.error_code, attempt.error)
    return ShownAttempt(
        attempt,
        error,
        hidden and attempt.status not in (AttemptStatus.RUNNING, AttemptStatus.SUCCEEDED),
        None if trace is None else own_code(trace),
        trace,
        {name: value for name, value in details.items() if name not in _OWN_DETAILS},
    )


def blocking_first(why: Explanation) -> tuple[Any | None, list[Any]]:
    """Returns the check that matters most, and the others in claim order."""
    first = next(iter((*why.blocking, *why.slow)), None)
    return first, [each for each in why.checks if each is not first and each.state is not CheckState.UNKNOWN]


def split_fix(fix: str) -> tuple[str, str, str]:
    """Divides what to do into the command, which comes first, and what is said about it."""
    for mark in (", ", "; "):
        command, comma, rest = fix.partition(mark)
        if comma:
            return command, comma, rest
    return fix, "", ""

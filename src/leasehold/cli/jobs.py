"""`leasehold jobs` and `leasehold job`: reading."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from leasehold.cli.format import (
    ATTEMPT_STYLES,
    STYLES,
    SYMBOLS,
    ago,
    at,
    relative,
    short,
    time_of_day,
    tries,
    utc_now,
)
from leasehold.cli.logs import line_text
from leasehold.cli.options import ForTenant, Json, OfTenant, Schema, TheJob, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_moment
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.control import Control, JobQuery
from leasehold.model.duration import span
from leasehold.model.job import Attempt, JobRecord, Source, TenantId
from leasehold.model.status import ACTIVE, AttemptStatus, DisplayState, Status
from leasehold.operations import views
from leasehold.operations.jobs import Reasons, Story
from leasehold.operations.lookup import read_states
from leasehold.operations.views import error_of, first_line, format_count, printable, visible, why
from leasehold.store import Page

LAST_ERRORS = 10


def jobs(
    tenant: ForTenant = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Even where LEASEHOLD_TENANT is set.")] = False,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="ready, scheduled, retrying, running, dead-letter …; may be repeated."),
    ] = None,
    definition: Annotated[
        list[str] | None, typer.Option("--definition", "-d", help="Of this definition; may be repeated.")
    ] = None,
    correlation_id: Annotated[str | None, typer.Option(help="With this correlation id.")] = None,
    source: Annotated[
        Source | None, typer.Option(help="manual, event, schedule or system.", metavar="S", show_default=False)
    ] = None,
    after: Annotated[str | None, typer.Option(help="Enqueued at or after a time, as 2030-01-31T09:00Z.")] = None,
    before: Annotated[str | None, typer.Option(help="Enqueued before a time.")] = None,
    error: Annotated[str | None, typer.Option(help="Of this error group, as in leasehold errors.")] = None,
    worker: Annotated[str | None, typer.Option(help="Run by the worker with this id.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="With this dedupe key.")] = None,
    priority: Annotated[str | None, typer.Option(help="5, '<50', '>10' or 1..9.")] = None,
    duration: Annotated[str | None, typer.Option(help="'>5m', '<10s' or 1m..5m.")] = None,
    payload: Annotated[str | None, typer.Option(help="With a field, as in provider.id=p_9.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", metavar="N", min=1, max=1000)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended; it says so below.")] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List jobs, newest first: of one tenant, or of all."""
    with explain_errors(json):
        between = _moment("--after", after), _moment("--before", before)
        texts = {
            "worker": worker,
            "dedupe_key": dedupe_key,
            "priority": priority,
            "duration": duration,
            "payload": payload,
        }
        traits = {name: text for name, text in texts.items() if text is not None}
        states, definitions = read_states(state or []), tuple(definition or ())
        query = JobQuery(states, definitions, correlation_id, source, *between, error, traits)
        owner = None if all_tenants else read_tenant(tenant)
        page, reasons = ask(url, schema, lambda control: control.jobs.list(owner, query, cursor, limit))
        if json:
            print_json([views.job(record, reasons.of(record)) for record in page.jobs])
        else:
            _show_jobs(page.jobs, reasons, of_all=owner is None)
        _say_what_follows(page, limit)


def _moment(option: str, given: str | None) -> datetime | None:
    return None if given is None else read_moment(given, option)


def _show_jobs(jobs: Sequence[JobRecord], reasons: Reasons, of_all: bool) -> None:
    now = utc_now()
    columns = ["STATE", "ID", *(["TENANT"] if of_all else []), "DEFINITION", "QUEUED", "TRY", "WHY"]
    rows: list[list[Cell]] = [
        [
            _state(job.display),
            job.id,
            *([job.tenant] if of_all else []),
            job.definition,
            ago(job.queued_at, now),
            tries(job),
            why(job, now, reasons.of(job)),
        ]
        for job in jobs
    ]
    if rows:
        show_table(stdout, columns, rows)


def _say_what_follows(page: Page, limit: int) -> None:
    stderr.print(f"{format_count(len(page.jobs), 'job')} · {time_of_day(utc_now())} UTC")
    if page.next:
        more = "more" if len(page.jobs) >= limit else "older jobs were not looked at yet"
        stderr.print(f"{more}: the same with --cursor {quote(page.next)}", markup=False)


def _state(state: DisplayState) -> Text:
    return Text(f"{SYMBOLS[state]} {state}", style=STYLES[state])


def job(
    job: TheJob,
    tenant: OfTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show everything about one job.

    Its fields, payload, result, error, attempts, and its last log lines.
    """
    with explain_errors(json):
        owner = read_tenant(tenant)
        found = ask(url, schema, lambda control: _read(control, job, owner))
        if json:
            print_json(_document(found))
        else:
            _show(found)


async def _read(control: Control, text: str, tenant: TenantId | None) -> Story:
    return await control.jobs.story(await control.jobs.find(text, tenant))


def _document(story: Story) -> dict[str, Any]:
    return views.job(story.job, story.held_by) | {
        "attempts": [views.attempt(attempt, story.numbers[attempt.number]) for attempt in story.attempts],
        "lines": [views.line(*each) for each in story.lines],
    }


def _show(story: Story) -> None:
    job, now = story.job, utc_now()
    show_line(stdout, Text.assemble(_state(job.display), f"  {visible(job.definition)}  {visible(job.tenant)}"))
    for name, value in _facts(job, story.held_by, now):
        show_line(stdout, f"  {name:<15} {value}")
    for problem in job.unreadable:
        show_line(stdout, f"  {'not as stored':<15} {printable(problem)}")
    _show_json("payload", views.payload(job))
    if job.result is not None:
        _show_json("result", views.result(job))
    if job.last_error or job.last_error_code:
        _show_part(
            "last error" if job.status is Status.SUCCEEDED else "error", error_of(job.last_error_code, job.last_error)
        )
    if story.attempts:
        show_line(stdout, "")
        show_table(
            stdout,
            ["TRY", "STATUS", "STARTED", "TOOK", "WORKER", "ERROR"],
            [_attempt(attempt, story.numbers[attempt.number], now) for attempt in story.attempts],
        )
    if ran := [attempt for attempt in story.attempts if "stdout_bytes" in attempt.details]:
        _show_process(ran[-1], story.numbers[ran[-1].number])
    if traced := [attempt for attempt in story.attempts if attempt.details.get("traceback")]:
        _show_part(f"traceback of try {story.numbers[traced[-1].number]}", traced[-1].details["traceback"])
    if story.lines:
        show_line(stdout, f"\nlast lines of try {story.lines[-1][1]}")
        for _, _, line in story.lines:
            show_line(stdout, Text.assemble("  ", line_text(line)))


def _facts(job: JobRecord, held_by: Sequence[str], now: datetime) -> Iterator[tuple[str, str]]:
    """Yields the known facts; unknown ones are left out."""
    facts: dict[str, object] = {
        "id": job.id,
        "tenant": job.tenant,
        "definition": f"{job.definition}, version {job.version}",
        "why": why(job, now, held_by) if job.status in ACTIVE | {Status.SUCCEEDED} else None,
        "tries": tries(job),
        "priority": job.priority,
        "source": " ".join(part for part in (job.source, job.source_ref) if part),
        "created by": job.created_by,
        "correlation id": job.correlation_id,
        "dedupe key": job.dedupe_key,
        "worker": job.worker,
    }
    moments = {
        "queued": job.queued_at,
        "scheduled for": job.scheduled_for,
        "started": job.started_at,
        "finished": job.finished_at,
        "cancel asked": job.cancel_requested_at,
        "deadline": job.deadline,
        "lease until": job.lease_expires_at,
    }
    yield from ((name, visible(str(value))) for name, value in facts.items() if value not in (None, ""))
    yield from ((name, f"{at(moment)}  ({relative(moment, now)})") for name, moment in moments.items() if moment)


def _attempt(attempt: Attempt, tries: int, now: datetime) -> list[Cell]:
    took = (attempt.finished_at or now) - attempt.started_at
    return [
        str(tries),
        Text(attempt.status.replace("_", " "), style=ATTEMPT_STYLES[attempt.status]),
        ago(attempt.started_at, now),
        span(took),
        _worker(attempt),
        first_line(error_of(attempt.error_code, attempt.error)) + _where(attempt),
    ]


def _worker(attempt: Attempt) -> str:
    if attempt.worker is None:
        return "–"
    name = "" if attempt.host is None else f"{attempt.host}:{attempt.pid}:"
    return f"{name}{short(attempt.worker)}"


def _where(attempt: Attempt) -> str:
    where = attempt.details.get("where")
    return f" ({where})" if where else ""


def _show_process(attempt: Attempt, tries: int) -> None:
    """Shows the process of a command, and the end of its error output if it did not succeed."""
    details = attempt.details
    ended = details.get("signal") or f"exit code {attempt.exit_code}"
    facts = {
        "command": " ".join(map(quote, details.get("argv", ()))),
        "ended": f"{ended}, pid {details.get('pid', '–')}",
        "output": f"{details['stdout_bytes']:,} bytes, errors {details.get('stderr_bytes', 0):,} bytes",
        "leftovers": details.get("leftovers"),
    }
    show_line(stdout, f"\nprocess of try {tries}")
    for name, value in facts.items():
        if value is not None:
            show_line(stdout, f"  {name:<15} {printable(str(value))}")
    if attempt.status is not AttemptStatus.SUCCEEDED and (tail := str(details.get("stderr_tail", "")).strip()):
        _show_part(f"last errors of try {tries}", printable("\n".join(tail.splitlines()[-LAST_ERRORS:])))


def _show_json(title: str, value: Any) -> None:
    _show_part(title, views.as_json(value, indented=True).decode())


def _show_part(title: str, text: str) -> None:
    show_line(stdout, f"\n{title}")
    for line in text.splitlines():
        show_line(stdout, f"  {line}")

"""The actions on a job: each has a page that says what it does, and a form that does it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from leasehold.api import shown
from leasehold.api.strict_json import read_json
from leasehold.console.job_rows import href_of, row_of
from leasehold.console.job_view import tenant_of
from leasehold.console.pages import Pages, Visit
from leasehold.console.rendering import pretty
from leasehold.console.routes.job import job_of
from leasehold.errors import LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.operations import changed_retry, jobs
from leasehold.operations.statuses import statuses_of

pages = Pages()
Change = Callable[[Visit, TenantId, JobId], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Action:
    """A change of one job. `verb` is that of the API, `command` that of the command line."""

    verb: str
    title: str
    button: str
    text: str
    command: str
    change: Change
    is_destructive: bool = False


async def _retry(visit: Visit, owner: TenantId, job: JobId) -> str:
    await visit.context.ask(lambda store: jobs.retry(store, owner, job, visit.context.actor))
    return "retry"


async def _run_now(visit: Visit, owner: TenantId, job: JobId) -> str:
    await visit.context.ask(lambda store: jobs.run_now(store, owner, job, visit.context.actor))
    return "run-now"


async def _cancel(visit: Visit, owner: TenantId, job: JobId) -> str:
    answer = await visit.context.ask(lambda store: jobs.cancel(store, owner, job, visit.context.actor))
    return answer.value


ACTIONS = (
    Action(
        "retry",
        "Retry this job?",
        "Retry",
        "It is queued once more under the same id, with all its tries. Its history stays.",
        "retry",
        _retry,
    ),
    Action(
        "run-now",
        "Run this job now?",
        "Run now",
        "It becomes due at once, instead of waiting for its time. Limits and pauses still hold.",
        "run-now",
        _run_now,
    ),
    Action(
        "cancel",
        "Cancel this job?",
        "Cancel the job",
        "A waiting job ends at once. A running one is asked to stop: its worker cancels the handler, and the job "
        "ends when it has stopped. A job that finishes first stays finished.",
        "cancel",
        _cancel,
        is_destructive=True,
    ),
)


def _declare(action: Action) -> None:
    @pages.add("GET", f"/jobs/{{job}}/{action.verb}", Permission.JOBS_CHANGE)
    async def confirm(visit: Visit) -> Response:
        owner, record = await _record(visit)
        return await _show(visit, action, owner, record, None)

    @pages.add("POST", f"/jobs/{{job}}/{action.verb}", Permission.JOBS_CHANGE)
    async def change(visit: Visit) -> Response:
        owner, record = await _record(visit)
        try:
            done = await action.change(visit, owner, record.id)
        except LeaseholdError as error:
            return await _show(visit, action, owner, (await _record(visit))[1], error)
        return _to_job(visit, record, done)


async def _record(visit: Visit) -> tuple[TenantId, JobRecord]:
    job = job_of(visit)
    owner = await tenant_of(visit, job)
    return owner, await visit.context.ask(lambda store: jobs.get(store, owner, job))


def _to_job(visit: Visit, record: JobRecord, done: str) -> Response:
    whose = {"tenant": record.tenant} if visit.area.tenant is None else {}
    return visit.go(f"/jobs/{record.id}", **whose, done=done)


async def _show(
    visit: Visit, action: Action, owner: TenantId, record: JobRecord, problem: LeaseholdError | None
) -> Response:
    facts = {
        "action": action,
        "row": row_of(visit, record),
        "problem": problem,
        "target": _target(visit, record, action.verb),
        "back": href_of(visit.area, record),
        **_copies(visit, owner, f"/jobs/{record.id}/{action.verb}", f"{action.command} {record.id}"),
    }
    return await visit.show("confirm.html", "jobs", facts, status=_status(problem))


def _copies(visit: Visit, owner: TenantId, path: str, command: str) -> Mapping[str, str]:
    """Returns the same action as a command, and as a request of the API."""
    origin = f"{visit.request.url.scheme}://{visit.request.url.netloc}{visit.root}"
    whose = "" if visit.principal.tenant is not None else f"?{urlencode({'tenant': owner})}"
    curl = f'curl -X POST {quote(f"{origin}/api/v1{path}{whose}")} -H "Authorization: Bearer $TOKEN"'
    return {"as_command": f"leasehold {command} --tenant {quote(owner)}", "as_curl": curl}


def _target(visit: Visit, record: JobRecord, verb: str) -> str:
    whose = f"?{urlencode({'tenant': record.tenant})}" if visit.area.tenant is None else ""
    return f"{visit.area.base}/jobs/{record.id}/{verb}{whose}"


def _status(problem: LeaseholdError | None) -> int:
    return 200 if problem is None else statuses_of(problem).http


for _action in ACTIONS:
    _declare(_action)


# ------------------------------------------------------------------------------------------------ retry with changes


@pages.add("GET", "/jobs/{job}/change", Permission.JOBS_ENQUEUE)
async def edit(visit: Visit) -> Response:
    """Shows the payload, to be changed: the changed one makes a new job."""
    _, record = await _record(visit)
    return await _edit(visit, record, pretty(_payload(visit, record)), None)


@pages.add("POST", "/jobs/{job}/change", Permission.JOBS_ENQUEUE)
async def enqueue_changed(visit: Visit) -> Response:
    """Enqueues the changed payload."""
    visit.require(Permission.PAYLOADS_READ)
    owner, record = await _record(visit)
    text = visit.form.get("payload", "")
    try:
        payload = _read(visit, text)
        placed = await visit.context.call(
            lambda catalog: changed_retry.enqueue_changed(
                catalog, record, payload, visit.context.actor, visit.context.guard.backend.code
            )
        )
    except LeaseholdError as error:
        return await _edit(visit, record, text, error)
    made = await visit.context.ask(lambda store: jobs.get(store, owner, placed.id))
    return _to_job(visit, made, "enqueued" if placed.created else "duplicate")


def _payload(visit: Visit, record: JobRecord) -> Any:
    return shown.job(visit.context, record)["payload"]


def _read(visit: Visit, text: str) -> Any:
    return read_json(text.encode(), visit.context.guard.limits.depth)


async def _edit(visit: Visit, record: JobRecord, text: str, problem: LeaseholdError | None) -> Response:
    facts = {
        "row": row_of(visit, record),
        "payload": text,
        "problem": problem,
        "target": _target(visit, record, "change"),
        "back": href_of(visit.area, record),
        "may_read": visit.may(Permission.PAYLOADS_READ),
    }
    return await visit.show("change.html", "jobs", facts, status=_status(problem))

"""The page of a job, and its log."""

from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from leasehold.config import process_redactor
from leasehold.console.job_view import blocking_first, read_job, show_line, split_fix, tenant_of
from leasehold.console.pages import Pages, Visit
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.model.job import JobId, job_id
from leasehold.operations import reading, views

pages = Pages()
LINES = 500


def job_of(visit: Visit) -> JobId:
    """Returns the job that the address names. Another text than an id is not found."""
    try:
        return job_id(visit.request.path_params["job"])
    except InvalidInput as error:
        raise HTTPException(404) from error


@pages.add("GET", "/jobs/{job}", Permission.JOBS_READ)
async def show_job(visit: Visit) -> Response:
    """Shows a job: its attempts, its log, why it waits, and what can be done."""
    view = await read_job(visit, job_of(visit))
    first, others = (None, []) if view.why is None else blocking_first(view.why)
    facts = {
        "view": view,
        "job": view.job,
        "first_check": first,
        "other_checks": others,
        "split_fix": split_fix,
        "may_change": visit.may(Permission.JOBS_CHANGE),
        "may_enqueue": visit.may(Permission.JOBS_ENQUEUE) and visit.may(Permission.PAYLOADS_READ),
        "may_read_logs": visit.may(Permission.LOGS_READ),
        # A trigger of all tenants has no page in the scope of one.
        "may_open_triggers": visit.may_all(Permission.TRIGGERS_READ),
    }
    return await visit.show("job.html", "jobs", facts)


@pages.add("GET", "/jobs/{job}/lines", Permission.LOGS_READ)
async def lines(visit: Visit) -> Response:
    """Returns the lines after a cursor as JSON, for the page that follows them."""
    job = job_of(visit)
    owner, after = await tenant_of(visit, job), visit.request.query_params.get("after") or None
    page = await visit.context.ask(lambda store: reading.lines(store, owner, job, after, LINES))
    found = [show_line(line).as_document() for line in page.lines]
    document = {"lines": found, "next": page.next, "ended": page.ended}
    return Response(views.as_json(document), 200, media_type="application/json")


@pages.add("GET", "/jobs/{job}/log.txt", Permission.LOGS_READ)
async def download(visit: Visit) -> Response:
    """Sends the whole log as plain text, which no browser renders."""
    job = job_of(visit)
    owner = await tenant_of(visit, job)
    first = await visit.context.ask(lambda store: reading.lines(store, owner, job, None, LINES))

    async def text() -> AsyncIterator[bytes]:
        page = first
        while page.lines:
            for line in page.lines:
                at = "" if line.at is None else line.at.isoformat(timespec="milliseconds")
                shown = views.printable(process_redactor().text(line.text)).replace("\n", "␊")
                yield f"{at} {line.tries} {line.kind.value} {shown}\n".encode()
            after = page.next
            page = await visit.context.ask(lambda store: reading.lines(store, owner, job, after, LINES))  # noqa: B023

    name = f'attachment; filename="{job}.log"'
    return StreamingResponse(text(), 200, {"Content-Disposition": name}, "text/plain; charset=utf-8")

"""The log lines of a job: page by page, or as a stream of server-sent events."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Header, Query, Response

from leasehold.api.context import Asked, Context
from leasehold.api.documents import JobIdPath, LinesDocument, OfTenant
from leasehold.api.route import Routes, answer
from leasehold.api.streams import EventStream, event_of
from leasehold.config import process_redactor
from leasehold.model.access import Permission
from leasehold.model.job import JobId, TenantId
from leasehold.operations import reading, views
from leasehold.operations.reading import JobLine, LinePage

routes = Routes("logs")
After = Annotated[str | None, Query(max_length=40, description="`next` of the page before.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=40, description="The id of the last event before.")
]


@routes.add("GET", "/jobs/{job_id}/logs", Permission.LOGS_READ, LinesDocument)
async def list_log_lines(
    context: Asked,
    job: JobIdPath,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    last: Annotated[bool, Query(description="The last lines of the latest try; `after` is ignored.")] = False,
    tenant: OfTenant = None,
) -> Response:
    """Lists the log lines of a job, of all tries, oldest first."""
    owner = context.tenant(tenant)
    if last:
        return answer(_document(await context.ask(lambda store: reading.last_lines(store, owner, job, limit))))
    return answer(_document(await context.ask(lambda store: reading.lines(store, owner, job, after, limit))))


@routes.add("GET", "/jobs/{job_id}/logs/stream", Permission.LOGS_READ, None, media="text/event-stream", timed=False)
async def stream_log_lines(
    context: Asked, job: JobIdPath, after: After = None, last: LastEventId = None, tenant: OfTenant = None
) -> Response:
    """Streams log lines as server-sent events, those so far and those that come; `end` is the last event.

    The id of an event is its cursor: Last-Event-ID goes on where a connection ended. A stream ends after 5 minutes.
    """
    owner = context.tenant(tenant)
    begin = last or after
    first = await context.ask(lambda store: reading.lines(store, owner, job, begin))
    return EventStream(context, Permission.LOGS_READ, owner, lambda: _events(context, owner, job, first))


async def _events(context: Context, owner: TenantId, job: JobId, page: LinePage) -> AsyncGenerator[bytes, None]:
    while True:
        for line in page.lines:
            yield event_of("line", _line(line), f"{line.attempt}-{line.number}")
        if page.ended:
            yield event_of("end", {"next": page.next}, page.next)
            return
        after = page.next
        page = await context.ask(lambda store: reading.next_lines(store, owner, job, after))  # noqa: B023


def _document(page: LinePage) -> dict[str, Any]:
    return {"lines": [_line(each) for each in page.lines], "next": page.next, "ended": page.ended}


def _line(line: JobLine) -> dict[str, Any]:
    document = views.fields_of(line)
    return document | {"try": document.pop("tries"), "text": process_redactor().text(line.text)}

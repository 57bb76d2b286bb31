"""Live changes, as a stream of server-sent events."""

from collections.abc import AsyncGenerator

from fastapi import Response

from leasehold.api.context import Asked
from leasehold.api.documents import OfTenant
from leasehold.api.live import Listener, LiveChanges
from leasehold.api.route import Routes
from leasehold.api.streams import EventStream, event_of
from leasehold.model.access import Permission

routes = Routes("changes")


@routes.add("GET", "/stream", Permission.JOBS_READ, None, timed=False, media="text/event-stream")
async def stream_changes(context: Asked, tenant: OfTenant = None) -> Response:
    """Streams which jobs have changed, of the tenant or of all tenants, as server-sent events without their content.

    `reload`: read everything again. `changed`: read `jobs`, the counts of `tenants`, and `workers` again; with
    `more`, lists as well. Each connection begins with `reload`, whatever Last-Event-ID says. A stream ends after
    5 minutes, and when its token is revoked.
    """
    owner, live = context.tenant_or_all(tenant), context.guard.live
    listener = Listener(owner, workers=owner is None and context.may(Permission.WORKERS_READ))
    return EventStream(context, Permission.JOBS_READ, owner, lambda: _events(live, listener))


async def _events(live: LiveChanges, listener: Listener) -> AsyncGenerator[bytes, None]:
    live.open(listener)
    try:
        while True:
            news = await listener.take()
            yield event_of("reload", {}) if news.reload else event_of("changed", news.document())
    finally:
        await live.close(listener)

"""One tick: due work in this process, for a cron or a serverless function. Only where handlers are loaded."""

from dataclasses import asdict

from fastapi import Response

from leasehold.api.context import Asked
from leasehold.api.documents import OkDocument, TickRequest
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission

routes = Routes("tick", prefix="/api")


@routes.add("POST", "/jobs/tick", Permission.TICK, OkDocument, timed=False)
async def run_tick(context: Asked, sent: TickRequest | None = None) -> Response:
    """Runs due jobs here and now, and fires schedules that are due. It may be called concurrently.

    A token that is bound to a tenant or to definitions runs only their jobs.
    """
    run, wanted, bearer = context.guard.backend.tick, sent or TickRequest(), context.principal
    assert run is not None
    tenants = None if bearer.tenant is None else [bearer.tenant]
    ticked = await run(wanted.max_jobs, wanted.max_seconds, only=bearer.definitions or (), tenants=tenants)
    return answer({"ok": True, **asdict(ticked)})

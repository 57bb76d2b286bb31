"""The workers: what each serves and holds, and which of them are silent."""

from starlette.responses import Response

from leasehold.console import worker_rows
from leasehold.console.pages import Pages, Visit
from leasehold.model.access import Permission
from leasehold.operations import health
from leasehold.operations.health import WorkerState

pages = Pages()


@pages.add("GET", "/workers", Permission.WORKERS_READ, wide=True)
async def list_workers(visit: Visit) -> Response:
    """Lists the workers that have a registration, the silent ones first."""
    fleet = await visit.shared("fleet", health.read_fleet)
    rows = worker_rows.rows_of(fleet)
    facts = {
        "rows": rows,
        "now": fleet.now,
        "silent": [row for row in rows if row.state in (WorkerState.STALE, WorkerState.GONE)],
        "live": sum(row.state is WorkerState.LIVE for row in rows),
        "slots": sum(row.worker.facts.slots for row in rows if row.state is not WorkerState.GONE),
        "running": sum(row.worker.running for row in rows),
        "most": worker_rows.SHOWN_DEFINITIONS,
    }
    return await visit.show("workers.html", "workers", facts)

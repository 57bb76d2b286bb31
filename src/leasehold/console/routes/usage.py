"""Usage: attempts, run time and processor time, by tenant, definition and time."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from leasehold.console.pages import Pages, Visit
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.usage import Usage
from leasehold.operations import usage

pages = Pages()
SHOWN = 200
WINDOWS = ("24h", "7d", "30d")
_FIELDS = ("since", "until", "by", "definition", "tenant")


@pages.add("GET", "/usage", Permission.JOBS_READ)
async def show_usage(visit: Visit) -> Response:
    """Shows the usage of a time as a table. The time and the division are in the address."""
    asked = _asked(visit)
    found, problem = None, None
    try:
        found = await _read(visit, asked)
    except InvalidInput as error:
        problem = error
    path, kept = f"{visit.area.base}/usage", {name: value for name, value in asked.items() if value}
    divisions = _divisions(visit, asked)
    facts = {
        "asked": asked,
        "problem": problem,
        "found": found,
        "rows": found.rows[:SHOWN] if found else (),
        "more": max(0, len(found.rows) - SHOWN) if found else 0,
        "longest": max((row.run for row in found.rows), default=None) if found else None,
        "windows": [(each, f"{path}?{urlencode({**kept, 'since': each, 'until': ''})}") for each in WINDOWS],
        "divisions": [(title, f"{path}?{urlencode({**kept, 'by': by})}", by) for title, by in divisions],
        "csv": f"{path}.csv?{urlencode(kept)}",
    }
    return await visit.show("usage.html", "usage", facts, status=422 if problem else 200)


@pages.add("GET", "/usage.csv", Permission.JOBS_READ)
async def export_usage(visit: Visit) -> Response:
    """Sends the table as a file with commas, with all of its rows."""
    text = usage.as_csv(usage.as_document(await _read(visit, _asked(visit))))
    named = {"Content-Disposition": 'attachment; filename="usage.csv"'}
    return Response(text, headers=named, media_type="text/csv; charset=utf-8")


def _asked(visit: Visit) -> dict[str, str]:
    asked = {name: visit.request.query_params.get(name, "").strip()[:100] for name in _FIELDS}
    return asked | {"since": asked["since"] or WINDOWS[0], "by": asked["by"] or _divisions(visit, asked)[0][1]}


def _divisions(visit: Visit, asked: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    by_time = (("Hour", "hour"), ("Day", "day"))
    if visit.area.tenant or asked["tenant"]:
        return (("Definition", "definition"), *by_time)
    return (
        ("Tenant and definition", "tenant,definition"),
        ("Tenant", "tenant"),
        ("Definition", "definition"),
        *by_time,
    )


async def _read(visit: Visit, asked: Mapping[str, str]) -> Usage:
    named = tenant_id(asked["tenant"]) if asked["tenant"] else None
    owner: TenantId | None = visit.area.tenant or named
    given: dict[str, Any] = {"since": asked["since"], "until": asked["until"] or None, "by": asked["by"]}
    return await visit.context.ask(
        lambda store: usage.read(store, owner, **given, definition=asked["definition"] or None)
    )

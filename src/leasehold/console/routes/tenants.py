"""The tenants, for super admins: how much each has, and its limit and pause."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.console import tenant_rows
from leasehold.console.copies import as_command, as_curl, as_segment
from leasehold.console.pages import Pages, Visit
from leasehold.console.segments import name_of, segment_of
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.duration import read_duration
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.limits import Scope, ScopeKind
from leasehold.operations import admin, tenants
from leasehold.operations.statuses import statuses_of

pages = Pages()


@pages.add("GET", "/tenants", Permission.TENANTS_READ, wide=True)
async def list_tenants(visit: Visit) -> Response:
    """Lists tenants by name."""
    cursor = visit.request.query_params.get("cursor") or None
    page = await (
        visit.context.ask(lambda store: tenant_rows.read_page(store, cursor))
        if "done" in visit.request.query_params  # a change was made a moment ago
        else visit.shared(("tenant rows", cursor), lambda store: tenant_rows.read_page(store, cursor))
    )
    facts = {
        "rows": page.rows,
        "cap": tenant_rows.CAP,
        "is_first": cursor is None,
        "following": page.next,
        "segment_of": segment_of,
        "may_limit": visit.may(Permission.LIMITS_WRITE),
    }
    return await visit.show("tenants.html", "tenants", facts)


# ---------------------------------------------------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a tenant's limit or pause. `copies` returns the command and the request that do the same."""

    verb: str
    title: str
    button: str
    text: str
    done: str
    make: Callable[[Visit, Scope], Awaitable[None]]
    method: str = "POST"
    path: str = ""
    sent: Mapping[str, Any] | None = None
    words: tuple[str, ...] = ()


async def _pause(visit: Visit, scope: Scope) -> None:
    lasting = visit.form.get("for", "").strip()
    length = read_duration(lasting) if lasting else None
    why = visit.form.get("why", "").strip()
    if not why:
        raise InvalidInput(
            "A pause needs a reason, for the people who find it. Nothing was changed.", fix="Write one."
        )
    await visit.context.ask(lambda store: admin.pause(store, scope, why, length, visit.context.actor))


async def _resume(visit: Visit, scope: Scope) -> None:
    await visit.context.ask(lambda store: admin.resume(store, scope, visit.context.actor))


async def _limit(visit: Visit, scope: Scope) -> None:
    text = visit.form.get("max_running", "").strip()
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidInput(
            f"{text[:40]!r} is not a number of jobs. Nothing was changed.", fix="Write 1 or more, or nothing."
        )
    most = int(text) if text else None
    await visit.context.ask(lambda store: admin.limit(store, scope, most, visit.context.actor))


CHANGES = (
    Change(
        "pause",
        "Pause this tenant?",
        "Pause",
        "No more of its jobs are started until it is resumed. Running ones go on, and new ones can be enqueued.",
        "paused",
        _pause,
        path="/pause",
        sent={"why": "…"},
        words=("…",),
    ),
    Change(
        "resume",
        "Resume this tenant?",
        "Resume",
        "Its waiting jobs are started again, in their order.",
        "resumed",
        _resume,
        path="/resume",
    ),
    Change(
        "limit",
        "Limit this tenant?",
        "Set the limit",
        "So many of its jobs may run at once. Those that already run go on.",
        "limited",
        _limit,
        method="PUT",
        sent={"max_running": 5},
        words=("--max-running", "5"),
    ),
)


def _declare(change: Change) -> None:
    @pages.add("GET", f"/tenants/{{name}}/{change.verb}", Permission.LIMITS_WRITE, wide=True)
    async def confirm(visit: Visit) -> Response:
        return await _show(visit, change, None)

    @pages.add("POST", f"/tenants/{{name}}/{change.verb}", Permission.LIMITS_WRITE, wide=True)
    async def make(visit: Visit) -> Response:
        try:
            await change.make(visit, Scope(ScopeKind.TENANT, _tenant(visit)))
        except LeaseholdError as error:
            return await _show(visit, change, error)
        return visit.go("/tenants", done=change.done)


def _tenant(visit: Visit) -> TenantId:
    try:
        return tenant_id(name_of(visit.request.path_params["name"]))
    except LeaseholdError as error:
        raise HTTPException(404) from error


async def _show(visit: Visit, change: Change, problem: LeaseholdError | None) -> Response:
    tenant = _tenant(visit)
    facts = {
        "change": change,
        "usage": await visit.context.ask(lambda store: tenants.usage(store, tenant)),
        "problem": problem,
        "form": visit.form,
        "target": f"{visit.area.base}/tenants/{segment_of(tenant)}/{change.verb}",
        "back": f"{visit.area.base}/tenants",
        **_copies(visit, change, tenant),
    }
    status = 200 if problem is None else statuses_of(problem).http
    return await visit.show("tenant_change.html", "tenants", facts, status=status)


def _copies(visit: Visit, change: Change, tenant: TenantId) -> Mapping[str, str]:
    """Returns the same change as a command, and as a request of the API."""
    path = f"/admin/limits/tenant/{as_segment(tenant)}{change.path}"
    return {
        "as_command": as_command(change.verb, "tenant", tenant, *change.words),
        "as_curl": as_curl(visit, change.method, path, change.sent),
    }


for _change in CHANGES:
    _declare(_change)

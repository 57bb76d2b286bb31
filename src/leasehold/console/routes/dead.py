"""Dead letters: failed and dead jobs by their error, and one group of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from leasehold.api import shown
from leasehold.console.job_rows import row_of
from leasehold.console.pages import Area, Pages, Visit
from leasehold.errors import UnknownJob
from leasehold.model.access import Permission
from leasehold.model.job import TenantId
from leasehold.model.status import Status
from leasehold.operations import error_groups, jobs, views
from leasehold.store import ErrorGroup, Store

pages = Pages()
CAP = 10_000
SHOWN_JOBS = 50
SHOWN_TENANTS = 3


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of a list: of one tenant, or of several."""

    id: str
    href: str
    definition: str
    code: str
    message: str
    jobs: int
    is_cap: bool
    recent: int
    first_at: datetime
    last_at: datetime
    tenants: Sequence[TenantId]

    @property
    def count(self) -> str:
        return f"{self.jobs:,}".replace(",", "\u202f") + ("+" if self.is_cap else "")


def rows_of(visit: Visit, groups: Sequence[ErrorGroup]) -> list[GroupRow]:
    """Returns rows; those of several tenants with one error are one row. The latest is first."""
    together: dict[str, list[ErrorGroup]] = {}
    for group in groups:
        together.setdefault(group.id, []).append(group)
    return [_row(visit, members) for members in together.values()]


def _row(visit: Visit, members: Sequence[ErrorGroup]) -> GroupRow:
    latest = members[0]
    document = shown.error_group(visit.context, latest)
    return GroupRow(
        latest.id,
        f"{visit.area.base}/dead/{latest.id}",
        latest.definition,
        latest.code or "Error",
        views.first_line(document["error"] or ""),
        sum(each.jobs for each in members),
        any(each.is_cap for each in members),
        sum(each.recent for each in members),
        min(each.first_at for each in members),
        latest.last_at,
        [each.tenant for each in members],
    )


async def read_groups(visit: Visit) -> tuple[list[GroupRow], bool]:
    """Reads the groups of the scope, shared by all visitors; and whether these are all."""
    owner = visit.area.tenant
    found = await visit.shared(("errors", owner), lambda store: error_groups.read(store, owner))
    return rows_of(visit, found.groups), found.is_whole


@pages.add("GET", "/dead", Permission.JOBS_READ)
async def list_groups(visit: Visit) -> Response:
    """Lists error groups, those with the latest job first."""
    rows, is_whole = await read_groups(visit)
    owner = visit.area.tenant
    retrying = 0 if rows or owner is None else await visit.context.ask(lambda store: _count_retrying(store, owner))
    facts = {
        "rows": rows,
        "is_whole": is_whole,
        "jobs": sum(row.jobs for row in rows),
        "is_cap": any(row.is_cap for row in rows),
        "retrying": retrying,
        "shown_tenants": SHOWN_TENANTS,
        "may_change": visit.may(Permission.JOBS_CHANGE) and owner is not None,
        "cap": CAP,
    }
    return await visit.show("dead.html", "dead", facts)


async def _count_retrying(store: Store, tenant: TenantId) -> int:
    return (await jobs.counts(store, tenant, CAP)).get(Status.QUEUED, 0)


@pages.add("GET", "/dead/{group}", Permission.JOBS_READ)
async def show_group(visit: Visit) -> Response:
    """Shows a group: which payloads it has, and its newest jobs."""
    group = error_groups.require_id(visit.request.path_params["group"])
    if visit.area.tenant is None:
        return await _show_tenants(visit, group)
    owner = visit.area.tenant
    story = await visit.context.ask(lambda store: error_groups.get(store, owner, group))
    (row,) = rows_of(visit, [story.group])
    documents: list[Mapping[str, object]] = [shown.job(visit.context, job) for job in story.jobs]
    facts = {
        "row": row,
        "error": shown.error_group(visit.context, story.group)["error"],
        "newest": story.group.newest,
        "looked": len(documents),
        "fields": error_groups.count_fields(each["payload"] for each in documents),
        "jobs": [row_of(visit, job) for job in story.jobs[:SHOWN_JOBS]],
        "may_change": visit.may(Permission.JOBS_CHANGE),
        "may_read": visit.may(Permission.PAYLOADS_READ),
        "may_read_logs": visit.may(Permission.LOGS_READ),
    }
    return await visit.show("dead_group.html", "dead", facts)


async def _show_tenants(visit: Visit, group: str) -> Response:
    """Shows the tenants that have jobs of a group. Their own pages have the actions."""
    found = await visit.context.ask(lambda store: error_groups.read_one(store, group))
    if not found.groups:
        raise UnknownJob(
            f"no tenant has a failed or dead job with the error group {group}. Nothing was changed.",
            fix="Its jobs may be queued again, or pruned. Go back to the dead letters.",
        )
    (row,) = rows_of(visit, found.groups)
    owners = [
        (each, f"{Area.of(visit.root, each.tenant).base}/dead/{group}")
        for each in sorted(found.groups, key=lambda each: (-each.jobs, each.tenant))
    ]
    facts = {"row": row, "owners": owners, "error": shown.error_group(visit.context, found.groups[0])["error"]}
    return await visit.show("dead_tenants.html", "dead", facts)

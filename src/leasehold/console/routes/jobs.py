"""The list of jobs: tabs by state, filters, columns, pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from leasehold.console import job_rows
from leasehold.console.all_counts import read_all_counts
from leasehold.console.bulk_form import kind_of_all
from leasehold.console.completions import completions_of
from leasehold.console.job_rows import Row, href_of
from leasehold.console.pages import Pages, Visit
from leasehold.console.queries import LONGEST, NAMES, Query, read_query
from leasehold.console.rendering import count_text, state_title
from leasehold.console.routes.saved_views import views_key
from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.access import Permission
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.status import DisplayState, Status
from leasehold.operations import jobs, saved_views
from leasehold.operations.lookup import WAITING, find_job
from leasehold.store import Page, SavedView, Store

pages = Pages()
CAP = 10_000
SIZES = (25, 50, 100, 200)
_TABS = (
    DisplayState.RUNNING,
    DisplayState.SUCCEEDED,
    DisplayState.CANCELED,
    DisplayState.FAILED,
    DisplayState.DEAD_LETTER,
)
_WAITING = (DisplayState.READY, DisplayState.RETRYING, DisplayState.SCHEDULED)


@dataclass(frozen=True, slots=True)
class Tab:
    """A state to choose. `count` is None where it is not counted."""

    title: str
    href: str
    is_current: bool
    count: str | None
    state: str | None = None


@pages.add("GET", "/jobs", Permission.JOBS_READ)
async def list_jobs(visit: Visit) -> Response:
    """Lists jobs, newest first. Every view has an address of its own: `q`, `column`, `limit` and `after`."""
    parameters = visit.request.query_params
    text = parameters.get("q", "")[:LONGEST]
    readable = visit.may(Permission.PAYLOADS_READ)
    query = read_query(text, datetime.now(UTC), all_tenants=visit.area.tenant is None, payloads=readable)
    if query.text and not query.problems and (found := await _find(visit, query)):
        return found
    limit = next((size for size in SIZES if str(size) == parameters.get("limit")), 50)
    after = parameters.get("after") or None
    owner = visit.area.tenant or query.tenant
    page, rows = await _page(visit, query, owner, after, limit)
    chosen = job_rows.known_columns(parameters.getlist("column"))
    columns = job_rows.read_columns(chosen, all_tenants=visit.area.tenant is None)
    address = _Address(f"{visit.area.base}/jobs", chosen, limit)
    facts = {
        "query": query,
        "text": text,
        "rows": rows,
        "columns": columns,
        "titles": job_rows.COLUMNS,
        "numbers": job_rows.NUMBERS,
        "tabs": _tabs(query, await _counts(visit, owner), address),
        "waiting": _waiting_tabs(query, address),
        "address": address,
        "limit": limit,
        "sizes": SIZES,
        "is_first": after is None,
        "newest": address.to(text),
        "views": await _views(visit),
        "own_query": saved_views.kept_of(address.to(text).partition("?")[2]),
        "older": None if page.next is None else address.to(text, page.next),
        "is_partial": page.down_to is not None,
        "completions": await completions_of(visit),
        "filter_names": NAMES,
        "may_change": visit.may(Permission.JOBS_CHANGE) and visit.area.tenant is not None,
        "may_share": visit.may(Permission.JOBS_CHANGE),
        "all_of": kind_of_all(query),
    }
    return await visit.show("jobs.html", "jobs", facts, status=422 if query.problems else 200)


async def _counts(visit: Visit, owner: TenantId | None) -> Mapping[Status, str]:
    """Counts the jobs of a tenant. Those of all tenants are measured now and then, and not in every state."""
    if owner is not None:
        counts = await visit.shared(("counts", owner), lambda store: jobs.counts(store, owner, CAP))
        return {status: count_text(counts.get(status, 0), CAP) for status in Status}
    return (await read_all_counts(visit)).texts


async def _views(visit: Visit) -> Sequence[SavedView]:
    return await visit.shared(
        views_key(visit), lambda store: saved_views.read(store, visit.area.tenant, visit.principal)
    )


async def _page(
    visit: Visit, query: Query, owner: TenantId | None, after: str | None, limit: int
) -> tuple[Page, Sequence[Row]]:
    """Reads a page; none while a word of the query can't be used: a list that ignores it would mislead."""
    if query.problems:
        return Page((), None), ()
    filters = query.filters()
    page, reasons = await visit.context.ask(lambda store: jobs.list_page(store, owner, filters, after, limit))
    return page, [job_rows.row_of(visit, each, reasons.of(each)) for each in page.jobs]


async def _find(visit: Visit, query: Query) -> Response | None:
    """Goes to the job whose id, or the end of it, was typed. If there is none, the word gets a problem."""
    try:
        record = await visit.context.ask(lambda store: _record(store, query.text, visit.area.tenant))
    except (UnknownJob, InvalidInput) as error:
        word = next(each for each in query.words if not each.name)
        query.words[query.words.index(word)] = type(word)(word.name, word.value, error.happened)
        return None
    return RedirectResponse(href_of(visit.area, record), 303)


async def _record(store: Store, text: str, tenant: TenantId | None) -> JobRecord:
    address = await find_job(store, text, tenant)
    return address.record or await jobs.get(store, address.tenant, address.job)


# ------------------------------------------------------------------------------------------------------------- tabs


@dataclass(frozen=True, slots=True)
class _Address:
    """Addresses of other views of this list."""

    path: str
    columns: Sequence[str]
    limit: int

    def to(self, text: str, after: str | None = None) -> str:
        chosen: dict[str, Any] = {"q": text, "column": list(self.columns), "after": after or ""}
        if self.limit != 50:
            chosen["limit"] = self.limit
        kept = {name: value for name, value in chosen.items() if value}
        return f"{self.path}?{urlencode(kept, doseq=True)}" if kept else self.path


def _tabs(query: Query, counts: Mapping[Status, str], address: _Address) -> list[Tab]:
    waits = bool(query.states) and query.states <= WAITING
    tabs = [
        Tab("All", address.to(query.with_status(None)), not query.states, None),
        Tab("Waiting", address.to(query.with_status("queued")), waits, counts.get(Status.QUEUED), "ready"),
    ]
    for state in _TABS:
        slug = state.value.replace(" ", "-")
        count = counts.get(Status[state.name])
        is_current = query.states == {state}
        tabs.append(Tab(state_title(state), address.to(query.with_status(slug)), is_current, count, slug))
    return tabs


def _waiting_tabs(query: Query, address: _Address) -> list[Tab]:
    """Returns the states of jobs that wait, while one of them is looked at."""
    if not query.states or not query.states <= WAITING:
        return []
    return [
        Tab(
            state_title(state), address.to(query.with_status(state.value)), query.states == {state}, None, state.value
        )
        for state in _WAITING
    ]

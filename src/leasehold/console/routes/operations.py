"""Operations on many jobs: their list, their progress, and how they are aborted."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.console.pages import Area, Pages, Visit
from leasehold.errors import InvalidInput, UnknownOperation, WrongState
from leasehold.model.access import Permission
from leasehold.model.operation import OperationKind, OperationState
from leasehold.operations import bulk, views
from leasehold.operations.statuses import statuses_of
from leasehold.store import Operation
from leasehold.store.operations import filter_document

pages = Pages()
LIMIT = 50
TITLES = {
    OperationKind.RETRY: "Retry of jobs",
    OperationKind.CANCEL: "Cancel of jobs",
    OperationKind.DELETE_TENANT: "Removal of a tenant",
}
# Each state with the word for it, and the colour of a state of jobs.
STATES = {
    OperationState.PLANNED: ("Begins", "scheduled"),
    OperationState.RUNNING: ("Running", "running"),
    OperationState.ABORTING: ("Aborting", "canceled"),
    OperationState.ABORTED: ("Aborted", "canceled"),
    OperationState.DONE: ("Done", "succeeded"),
    OperationState.FAILED: ("Failed", "failed"),
}
REASONS = {
    "ended_later": "ended after they were chosen",
    "enqueued_later": "were enqueued after they were chosen",
    "duplicate": "have a dedupe key that another job holds",
    "active": "were queued again meanwhile",
    "changed": "changed meanwhile",
    "ended": "ended meanwhile",
    "unknown": "are gone",
}
_NAMES = {
    "statuses": "status",
    "definitions": "definition",
    "correlation_id": "correlation",
    "error_group": "error",
    "created_after": "after",
    "created_before": "before",
}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation as people see it."""

    operation: Operation
    href: str
    base: str

    @property
    def title(self) -> str:
        return TITLES[self.operation.kind]

    @property
    def state(self) -> str:
        return STATES[self.operation.state][0]

    @property
    def colour(self) -> str:
        return STATES[self.operation.state][1]

    @property
    def seen(self) -> int:
        """Jobs whose turn has come."""
        return self.operation.done + self.operation.skipped + self.operation.refused

    @property
    def share(self) -> float:
        if self.operation.state is OperationState.DONE:
            return 1.0
        return min(self.seen / self.operation.total, 1.0) if self.operation.total else 0.0

    @property
    def waits_for_canary(self) -> bool:
        each = self.operation
        return each.canary and each.canary_job is not None and not each.state.ended

    @property
    def reasons(self) -> list[tuple[str, int]]:
        found = sorted(self.operation.details.items(), key=lambda each: -each[1])
        return [(REASONS.get(name, name.replace("_", " ")), count) for name, count in found]

    @property
    def filter(self) -> str:
        """The choice in words of the search box, or how many jobs were named."""
        if self.operation.jobs:
            return views.format_count(len(self.operation.jobs), "chosen job")
        words = []
        for name, value in filter_document(self.operation.where).items():
            text = ",".join(value) if isinstance(value, list) else str(value)
            words.append(f"{_NAMES.get(name, name)}:{text.replace('_', '-') if name == 'statuses' else text}")
        return " ".join(words)

    @property
    def error(self) -> str | None:
        return views.operation(self.operation)["error"] or None

    @property
    def pace(self) -> str:
        if self.operation.pace is None:
            return "at once"
        a_minute = self.operation.pace.jobs_per_second * 60
        return f"{a_minute:g} a minute" if a_minute < 6000 else f"{a_minute / 60:g} a second"

    @property
    def left(self) -> timedelta | None:
        """How long it still takes at its pace; None if that is not known."""
        each = self.operation
        if each.pace is None or not each.total or each.state.ended or self.waits_for_canary or each.total_is_cap:
            return None
        return timedelta(seconds=max(0, each.total - self.seen) / each.pace.jobs_per_second)


def row_of(visit: Visit, operation: Operation) -> OperationRow:
    base = visit.area.base if visit.area.tenant else Area.of(visit.root, operation.tenant).base
    return OperationRow(operation, f"{visit.area.base}/operations/{operation.id}", base)


@pages.add("GET", "/operations", Permission.JOBS_READ)
async def list_operations(visit: Visit) -> Response:
    """Lists operations, the newest first."""
    after = visit.request.query_params.get("after") or None
    page = await visit.context.ask(lambda store: bulk.list_page(store, visit.area.tenant, after, LIMIT))
    facts = {
        "rows": [row_of(visit, each) for each in page.operations],
        "is_first": after is None,
        "older": None if page.next is None else f"{visit.area.base}/operations?{urlencode({'after': page.next})}",
    }
    return await visit.show("operations.html", "operations", facts)


@pages.add("GET", "/operations/{operation}", Permission.JOBS_READ)
async def show_operation(visit: Visit) -> Response:
    """Shows how far an operation is."""
    row = row_of(visit, await _get(visit))
    may_abort = visit.may(bulk.permission_to_abort(row.operation)) and row.operation.state in (
        OperationState.PLANNED,
        OperationState.RUNNING,
    )
    return await visit.show("operation.html", "operations", {"row": row, "may_abort": may_abort})


@pages.add("GET", "/operations/{operation}/abort", Permission.JOBS_CHANGE)
async def confirm_abort(visit: Visit) -> Response:
    operation = await _get(visit)
    visit.require(bulk.permission_to_abort(operation))
    return await _confirm(visit, operation, None)


@pages.add("POST", "/operations/{operation}/abort", Permission.JOBS_CHANGE)
async def abort(visit: Visit) -> Response:
    """Ends an operation before its next batch."""
    before = await _get(visit)
    visit.require(bulk.permission_to_abort(before))
    try:
        await visit.context.ask(lambda store: bulk.abort(store, before.id, before.tenant, visit.context.actor))
    except WrongState as error:
        return await _confirm(visit, await _get(visit), error)
    return visit.go(f"/operations/{before.id}")


async def _get(visit: Visit) -> Operation:
    named = visit.request.path_params["operation"]
    try:
        return await visit.context.look_at(named, visit.area.tenant)
    except UnknownOperation:
        raise
    except InvalidInput as error:
        raise HTTPException(404) from error


async def _confirm(visit: Visit, operation: Operation, problem: WrongState | None) -> Response:
    facts = {"row": row_of(visit, operation), "problem": problem}
    return await visit.show(
        "abort.html", "operations", facts, status=200 if problem is None else statuses_of(problem).http
    )

"""Retries or cancels many jobs: a page with the plan, whose form begins an operation."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.console.bulk_form import (
    USUAL_PACE,
    BulkChoice,
    as_body,
    as_command,
    can_be_copied,
    operation_of,
    read_choice,
)
from leasehold.console.copies import as_curl
from leasehold.console.pages import Pages, Visit
from leasehold.console.rendering import state_title
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.job import TenantId
from leasehold.model.operation import OperationKind
from leasehold.operations import bulk
from leasehold.operations.statuses import statuses_of
from leasehold.store import NewOperation, Store
from leasehold.store.operations import Plan

pages = Pages()
SAMPLE = 3


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a kind of operation."""

    verb: str
    done: str
    text: str
    is_destructive: bool = False


WORDS = {
    OperationKind.RETRY: Words(
        "Retry",
        "queued again",
        "They are queued again under their ids, with all their tries; their history stays. A job whose dedupe key "
        "another job holds is skipped.",
    ),
    OperationKind.CANCEL: Words(
        "Cancel",
        "canceled",
        "Waiting jobs end at once. Running ones are asked to stop; those that finish first stay finished.",
        is_destructive=True,
    ),
}


@pages.add("GET", "/bulk/{kind}", Permission.JOBS_CHANGE)
async def plan_change(visit: Visit) -> Response:
    """Shows how many jobs would be changed, and asks how. Nothing that happens from now on is included."""
    owner, kind = _owner(visit), _kind(visit)
    parameters = visit.request.query_params
    as_of = await visit.context.ask(_now)
    choice = read_choice(kind, dict(parameters), parameters.getlist("job"), as_of)
    form = {"speed": "paced", "pace": USUAL_PACE} if not choice.jobs else {}
    return await _show(visit, owner, choice, form, as_of, None)


@pages.add("POST", "/bulk/{kind}", Permission.JOBS_CHANGE)
async def begin_change(visit: Visit) -> Response:
    """Begins the operation, and goes to its progress."""
    owner, kind = _owner(visit), _kind(visit)
    as_of = _moment(visit.form.get("as_of", ""))  # times like 7d count from the plan, which the visitor has seen
    choice = read_choice(kind, visit.form, visit.form.get("jobs", "").split(), as_of)
    try:
        new = operation_of(choice, owner, visit.form, as_of, visit.principal.name)
        planned = await visit.context.ask(lambda store: bulk.plan(store, new))
        begun = await visit.context.begin(lambda store: bulk.begin(store, planned, visit.context.actor))
    except InvalidInput as error:
        return await _show(visit, owner, choice, visit.form, as_of, error)
    return visit.go(f"/operations/{begun.id}")


def _owner(visit: Visit) -> TenantId:
    """Returns whose jobs are changed. An operation has one tenant."""
    if visit.area.tenant is None:
        raise HTTPException(404)
    return visit.area.tenant


def _kind(visit: Visit) -> OperationKind:
    named = visit.request.path_params["kind"]
    found = next((kind for kind in WORDS if kind.value == named), None)
    if found is None:
        raise HTTPException(404)
    return found


async def _now(store: Store) -> datetime:
    return await store.now()


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise HTTPException(400) from error
    if found.tzinfo is None:
        raise HTTPException(400)
    return found


async def _show(
    visit: Visit,
    owner: TenantId,
    choice: BulkChoice,
    form: dict[str, str] | object,
    as_of: datetime,
    problem: LeaseholdError | None,
) -> Response:
    given = dict(form) if isinstance(form, dict) else {}
    try:
        new = operation_of(choice, owner, {} if problem else given, as_of, visit.principal.name)
        planned = await visit.context.ask(lambda store: bulk.plan(store, new))
        skipped = await _count_skipped(visit, owner, choice, planned)
    except InvalidInput as error:
        planned, skipped, problem = None, {}, problem or error
    facts = {
        "words": WORDS[choice.kind],
        "choice": choice,
        "owner": owner,
        "planned": planned,
        "skipped": skipped,
        "checked_keys": bulk.CHECKED_KEYS,
        "sample": [] if planned is None else planned.sample[:SAMPLE],
        "form": given,
        "as_of": as_of,
        "problem": problem,
        "back": _back(visit, choice),
        **({} if planned is None else _copies(visit, planned.operation)),
    }
    return await visit.show(
        "bulk.html",
        "dead" if choice.group else "jobs",
        facts,
        status=200 if problem is None else statuses_of(problem).http,
    )


async def _count_skipped(visit: Visit, owner: TenantId, choice: BulkChoice, planned: Plan) -> dict[str, int]:
    """Counts the jobs that were chosen and can't be changed, by the reason."""
    if not choice.jobs:
        return {}
    found = await visit.context.ask(lambda store: store.tenant(owner).get_many(choice.jobs))
    reasons = Counter(
        state_title(job.display).lower() for job in found if job.status not in planned.operation.where.statuses
    )
    if planned.duplicates:
        reasons["whose dedupe key another job holds"] = planned.duplicates
    if gone := len(choice.jobs) - len(found):
        reasons["gone"] = gone
    if late := len(choice.jobs) - planned.matching - reasons.total() + planned.duplicates:
        reasons["changed just now"] = late
    return dict(reasons)


def _copies(visit: Visit, new: NewOperation) -> dict[str, str]:
    if not can_be_copied(new):
        return {}
    curl = as_curl(visit, "POST", "/operations", as_body(new), owner=new.tenant)
    return {"as_command": as_command(new), "as_curl": curl}


def _back(visit: Visit, choice: BulkChoice) -> str:
    if choice.group is not None:
        return f"{visit.area.base}/dead/{choice.group}"
    query = f"?{urlencode({'q': choice.text})}" if choice.text else ""
    return f"{visit.area.base}/jobs{query}"

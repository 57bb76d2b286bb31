"""The list of triggers, and the page of one: its next runs and what it has decided."""

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.console.pages import Pages, Visit
from leasehold.console.trigger_rows import TriggerRow, row_of, viewer_zone
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.decision import Decision
from leasehold.model.job import tenant_id
from leasehold.model.preview import Preview
from leasehold.model.trigger import ALL, Trigger, TriggerId, TriggerKind, trigger_id
from leasehold.operations import triggers as operations
from leasehold.operations.triggers import Owner
from leasehold.store import Store

pages = Pages()
LISTED = 50
DECISIONS = 50
COUNTS = (5, 20, 50)


def trigger_of(visit: Visit) -> TriggerId:
    """Returns the trigger that the address names. Another text than an id is not found."""
    try:
        return trigger_id(visit.request.path_params["trigger"])
    except InvalidInput as error:
        raise HTTPException(404) from error


async def read_trigger(visit: Visit, store: Store) -> Trigger:
    """Reads the trigger of the address, within its scope. Raises UnknownTrigger."""
    wanted = trigger_of(visit)
    if visit.area.tenant is None:
        return await operations.find(store, wanted, None)
    return await operations.get(store, visit.area.tenant, wanted)


def owner_of(visit: Visit) -> Owner:
    """Returns whose trigger a change is about that is not there any more: the scope's, or the one that is named."""
    named = visit.request.query_params.get("tenant", "")
    return visit.area.tenant or (tenant_id(named) if named else ALL)


def _undo(visit: Visit) -> str | None:
    """Returns where the deletion that was just made is undone."""
    asked = visit.request.query_params
    if asked.get("done") != "trigger-delete" or not visit.may(Permission.TRIGGERS_WRITE):
        return None
    try:
        gone = trigger_id(asked.get("trigger", ""))
    except InvalidInput:
        return None
    whose = f"?{urlencode({'tenant': asked['tenant']})}" if "tenant" in asked else ""
    return f"{visit.area.base}/triggers/{gone}/restore{whose}"


@pages.add("GET", "/triggers", Permission.TRIGGERS_READ)
async def list_triggers(visit: Visit) -> Response:
    """Lists triggers, the oldest first; in the scope of all tenants those of every owner."""
    cursor = visit.request.query_params.get("after") or None
    after = None if cursor is None else trigger_id(cursor)
    owner = visit.area.tenant

    async def read(store: Store) -> tuple[list[Trigger], dict[TriggerId, Decision]]:
        found = list(await operations.list_all(store, owner, LISTED + 1, after))
        return found, dict(await operations.latest_decisions(store, found[:LISTED]))

    found, latest = await visit.context.ask(read)
    now = datetime.now(UTC)
    rows = [row_of(visit, each, now, latest.get(each.id)) for each in found[:LISTED]]
    facts = {
        "rows": rows,
        "following": rows[-1].trigger.id if len(found) > LISTED else None,
        "is_first": after is None,
        "may_write": visit.may(Permission.TRIGGERS_WRITE) and owner is not None,
        "undo": _undo(visit),
    }
    return await visit.show("triggers.html", "triggers", facts)


@dataclass(frozen=True, slots=True)
class _View:
    trigger: Trigger
    decisions: list[Decision]
    preview: Preview | None
    problem: LeaseholdError | None


@pages.add("GET", "/triggers/{trigger}", Permission.TRIGGERS_READ)
async def show_trigger(visit: Visit) -> Response:
    """Shows a trigger: when it fires, what it enqueues, and the history of its decisions."""
    asked = visit.request.query_params.get("count", "")
    count = next((each for each in COUNTS if str(each) == asked), COUNTS[0])
    viewer = viewer_zone(visit)

    async def read(store: Store) -> _View:
        found = await read_trigger(visit, store)
        decisions = list(await store.triggers(found.tenant).decisions(found.id, DECISIONS))
        if found.rule.kind is TriggerKind.EVENT:
            return _View(found, decisions, None, None)
        try:
            _, seen = await operations.preview_trigger(store, found.tenant, found.id, count, viewer)
            return _View(found, decisions, seen, None)
        except LeaseholdError as error:
            return _View(found, decisions, None, error)

    view = await visit.context.ask(read)
    row = row_of(visit, view.trigger, datetime.now(UTC), view.decisions[0] if view.decisions else None)
    facts = {
        "view": view,
        "row": row,
        "rule": view.trigger.rule,
        "count": count,
        "counts": COUNTS,
        "viewer": viewer,
        "most_decisions": DECISIONS,
        **_rights(visit, row),
    }
    return await visit.show("trigger.html", "triggers", facts)


def _rights(visit: Visit, row: TriggerRow) -> dict[str, bool]:
    may_write = visit.may(Permission.TRIGGERS_WRITE)
    return {
        "may_write": may_write,
        "may_edit": may_write and not row.is_of_code,
        "may_change_rule": may_write and not row.is_of_code and visit.may(Permission.PAYLOADS_READ),
    }

"""Received events with what triggers decided, and the tester, which changes nothing until one emits for real."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from leasehold.api import shown
from leasehold.api.strict_json import read_json
from leasehold.console.copies import as_command, as_curl
from leasehold.console.job_rows import summarize
from leasehold.console.pages import Pages, Visit
from leasehold.console.rendering import pretty
from leasehold.console.trigger_rows import href_of
from leasehold.errors import InvalidInput, LeaseholdError, NoTenant
from leasehold.model.access import Permission
from leasehold.model.decision import Decision
from leasehold.model.event import Event, NewEvent, event_id, event_name
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, Trigger, TriggerId
from leasehold.operations import events as operations
from leasehold.operations import views
from leasehold.operations.events import TriggerTest
from leasehold.operations.reports import report_emit
from leasehold.operations.statuses import statuses_of

pages = Pages()
LISTED = 50
RECENT = 10


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of the list, with the decisions about it."""

    event: Event
    data: Any
    decisions: Sequence[Decision]

    @property
    def summary(self) -> str:
        return summarize(self.data)


def _owner(visit: Visit) -> TenantId:
    """Returns the tenant of the scope. Raises NoTenant: events are read for one tenant."""
    if visit.area.tenant is None:
        raise NoTenant(
            "events are those of one tenant, and this is the scope of all of them. Nothing was done.",
            fix="Choose a tenant at the top of the page.",
        )
    return visit.area.tenant


@pages.add("GET", "/events", Permission.EVENTS_READ)
async def list_events(visit: Visit) -> Response:
    """Lists events, the newest first; `name` chooses those of one name."""
    if visit.area.tenant is None:
        return await visit.show("events_choose.html", "events", {})
    owner = visit.area.tenant
    name, cursor = visit.request.query_params.get("name", "").strip(), visit.request.query_params.get("after")
    problem, rows, labels = None, [], {}
    try:
        only, before = event_name(name) if name else None, event_id(cursor) if cursor else None
        found, triggers, decisions = await visit.context.ask(
            lambda store: operations.list_with_decisions(store, owner, LISTED + 1, before, only)
        )
        rows, labels = _rows(visit, found, decisions), _labels(visit, triggers)
    except InvalidInput as error:
        problem = error
    facts = {
        "rows": rows[:LISTED],
        "labels": labels,
        "name": name,
        "problem": problem,
        "emitted": "emitted" in visit.request.query_params,
        "is_first": not cursor,
        "following": rows[LISTED - 1].event.id if len(rows) > LISTED else None,
        "may_read": visit.may(Permission.PAYLOADS_READ),
    }
    return await visit.show("events.html", "events", facts, status=200 if problem is None else 422)


def _rows(visit: Visit, found: Sequence[Event], decisions: Sequence[Decision]) -> list[EventRow]:
    documents = (shown.event(visit.context, views.event(each)) for each in found)
    return [
        EventRow(each, document["data"], [one for one in decisions if one.event == each.id])
        for each, document in zip(found, documents, strict=True)
    ]


def _labels(visit: Visit, triggers: Sequence[Trigger]) -> dict[TriggerId, tuple[str, str | None]]:
    """Returns labels of triggers, and their pages: those for all tenants have none in the scope of a tenant."""
    return {
        each.id: (each.rule.label, None if each.tenant is ALL else href_of(visit.area, each)) for each in triggers
    }


# ------------------------------------------------------------------------------------------------------------ tester


@dataclass(frozen=True, slots=True)
class TriggerAnswer:
    """The answer of one trigger to an event, as its reader may see it."""

    test: TriggerTest
    document: Mapping[str, Any]
    href: str | None

    @property
    def result(self) -> str:
        return str(self.document["result"])


@pages.add("GET", "/events/test", Permission.EVENTS_READ)
async def tester(visit: Visit) -> Response:
    """Shows the tester; `name` and `event` fill it, `data` too."""
    owner, query = _owner(visit), visit.request.query_params
    name, data = query.get("name", ""), query.get("data", "{}")
    if wanted := query.get("event"):
        recent = await _recent(visit, owner)
        chosen = next((row for row in recent if row.event.id == wanted), None)
        if chosen is not None and chosen.data is not None:
            name, data = chosen.event.name, pretty(chosen.data)
    return await _show(visit, name, data, tried=bool(query.get("event")))


@pages.add("POST", "/events/test", Permission.EVENTS_READ)
async def try_event(visit: Visit) -> Response:
    """Shows what each trigger would do with an event. Writes nothing."""
    return await _show(visit, visit.form.get("name", ""), visit.form.get("data", ""), tried=True)


@pages.add("POST", "/events/emit", Permission.EVENTS_EMIT)
async def emit(visit: Visit) -> Response:
    """Asks whether an event shall be emitted, and emits it once that is confirmed."""
    owner, name, data = _owner(visit), visit.form.get("name", ""), visit.form.get("data", "")
    try:
        sent = _event(visit, name, data)
        if visit.form.get("do") != "emit":
            return await _confirm(visit, owner, sent, data)
        key = context_id(visit, owner)
        event = NewEvent(sent.name, sent.data, None, visit.principal.name, None if key is None else event_id(key))
        made = await visit.context.call(lambda catalog: operations.emit(owner, event, catalog))
        report_emit(visit.context.guard.backend.listeners, made)
    except LeaseholdError as error:
        return await _show(visit, name, data, tried=False, problem=error)
    return visit.go("/events", emitted=made.id)


def context_id(visit: Visit, owner: TenantId) -> Any:
    """Returns the id that the key of the form stands for: a form that is sent twice emits once."""
    return visit.context.repeatable_id(owner, "emit", visit.form.get("key") or None)


async def _confirm(visit: Visit, owner: TenantId, event: NewEvent, data: str) -> Response:
    tests = await visit.context.call(lambda catalog: operations.try_out(owner, event, catalog))
    fires = sum(each.fires for each in tests)
    facts = {
        "name": event.name,
        "data": data,
        "key": visit.context.request_id,
        "fires": fires,
        **_copies(visit, owner, event),
    }
    return await visit.show("event_emit.html", "events", facts)


def _copies(visit: Visit, owner: TenantId, event: NewEvent) -> dict[str, str]:
    body = {"name": event.name, "data": event.data}
    return {
        "as_command": as_command("events", "emit", event.name, "--data", event.text, owner=owner),
        "as_curl": as_curl(visit, "POST", "/events", body, owner=owner),
    }


def _event(visit: Visit, name: str, data: str) -> NewEvent:
    read = read_json((data.strip() or "{}").encode(), visit.context.guard.limits.depth)
    if not isinstance(read, dict):
        raise InvalidInput("the data of an event is an object. Nothing was done.", fix='Write {"size": 3}.')
    return NewEvent(name.strip(), read)


async def _recent(visit: Visit, owner: TenantId) -> list[EventRow]:
    found = await visit.context.ask(lambda store: operations.list_latest(store, owner, RECENT))
    return _rows(visit, found, ())


async def _show(
    visit: Visit, name: str, data: str, *, tried: bool, problem: LeaseholdError | None = None
) -> Response:
    owner = _owner(visit)
    tests: list[TriggerAnswer] = []
    if tried and problem is None:
        try:
            event = _event(visit, name, data)
            found = await visit.context.call(lambda catalog: operations.try_out(owner, event, catalog))
            documents = _documents(visit, found)
            tests = [_answer_of(visit, *each) for each in zip(found, documents, strict=True)]
        except LeaseholdError as error:
            problem = error
    order = {"fires": 0, "trailing": 1, "deduped": 2, "error": 3, "skipped": 4, "no match": 5}
    facts = {
        "name": name,
        "data": data,
        "tried": tried and problem is None,
        "tests": sorted(tests, key=lambda each: order[each.result]),
        "fires": sum(each.result in ("fires", "trailing") for each in tests),
        "problem": problem,
        "recent": await _recent(visit, owner),
        "may_emit": visit.may(Permission.EVENTS_EMIT),
        "may_read": visit.may(Permission.PAYLOADS_READ),
    }
    status = 200 if problem is None else statuses_of(problem).http
    return await visit.show("event_test.html", "events", facts, status=status)


def _documents(visit: Visit, tests: Sequence[TriggerTest]) -> list[dict[str, Any]]:
    hidden = {} if visit.may(Permission.PAYLOADS_READ) else {"payload": None}
    return [each | hidden for each in operations.as_document(tests)]


def _answer_of(visit: Visit, test: TriggerTest, document: Mapping[str, Any]) -> TriggerAnswer:
    return TriggerAnswer(test, document, None if test.trigger.tenant is ALL else href_of(visit.area, test.trigger))

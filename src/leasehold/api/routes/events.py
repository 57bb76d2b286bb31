"""The events of a tenant: emit, list, and look what triggers would do."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Response

from leasehold.api import shown
from leasehold.api.context import Asked, Context
from leasehold.api.documents import (
    EmitEvent,
    EmittedDocument,
    EventsDocument,
    EventTestDocument,
    IdempotencyKey,
    Limit,
    OfTenant,
)
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.decision import Decision
from leasehold.model.event import Event, EventId, NewEvent, event_id, event_name
from leasehold.model.job import TenantId
from leasehold.operations import events as operations
from leasehold.operations import views
from leasehold.operations.reports import report_emit
from leasehold.store import Store

routes = Routes("events")


@routes.add("POST", "/events", Permission.EVENTS_EMIT, EmittedDocument, status=201, also=200)
async def emit_event(
    context: Asked, sent: EmitEvent, key: IdempotencyKey = None, tenant: OfTenant = None
) -> Response:
    """Emits an event: writes it, and the jobs of the triggers that match, all or nothing.

    With an Idempotency-Key, the same event sent again makes no second job; another one with that key is refused.
    """
    owner = context.tenant(tenant)
    with context.produce("emit", sent.name, owner) as production:
        event = _event(context, owner, sent, key, production.trace_context)
        emitted = await context.call(lambda catalog: operations.emit(owner, event, catalog))
        production.note(count=len(emitted.jobs))
    report_emit(context.guard.backend.listeners, emitted)
    return answer(shown.with_ids(views.emitted(emitted)), 201 if emitted.created else 200)


@routes.add("POST", "/events/test", Permission.EVENTS_READ, EventTestDocument)
async def try_event(context: Asked, sent: EmitEvent, tenant: OfTenant = None) -> Response:
    """Tells what each event trigger would do with this event. Writes nothing."""
    owner = context.tenant(tenant)
    event = NewEvent(sent.name, sent.data)
    found = await context.call(lambda catalog: operations.try_out(owner, event, catalog))
    documents = [shown.with_ids(each) for each in operations.as_document(found)]
    hidden = {} if context.may(Permission.PAYLOADS_READ) else {"payload": None}
    return answer({"triggers": [each | hidden for each in documents]})


@routes.add("GET", "/events", Permission.EVENTS_READ, EventsDocument)
async def list_events(
    context: Asked,
    name: Annotated[str | None, Query(max_length=200)] = None,
    decisions: Annotated[bool, Query(description="Also what triggers that still exist decided.")] = False,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=36)] = None,
    tenant: OfTenant = None,
) -> Response:
    """Lists the events of a tenant, the newest first; with `decisions`, each with those about it."""
    owner, before = context.tenant(tenant), None if cursor is None else event_id(cursor)
    only = None if name is None else event_name(name)
    found, decided = await context.ask(lambda store: _list(store, owner, limit, before, only, decisions=decisions))
    documents = [shown.event(context, views.event(each)) for each in found]
    if decisions:
        documents = [
            document | {"decisions": [shown.with_ids(views.decision(one)) for one in decided if one.event == each.id]}
            for document, each in zip(documents, found, strict=True)
        ]
    return answer({"events": documents, "next": found[-1].id if len(found) == limit else None})


async def _list(
    store: Store, owner: TenantId, limit: int, before: EventId | None, name: str | None, *, decisions: bool
) -> tuple[Sequence[Event], Sequence[Decision]]:
    if not decisions:
        return await store.events(owner).list(limit, before, name), ()
    found, _, decided = await operations.list_with_decisions(store, owner, limit, before, name)
    return found, decided


def _event(
    context: Context, owner: TenantId, sent: EmitEvent, key: str | None, trace_context: str | None
) -> NewEvent:
    repeatable = context.repeatable_id(owner, "emit", key)
    brought = None if repeatable is None else event_id(repeatable)
    return NewEvent(sent.name, sent.data, sent.correlation_id, context.principal.name, brought, trace_context)

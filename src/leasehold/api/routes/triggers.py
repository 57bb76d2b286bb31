"""The triggers of a tenant, and those for all tenants: save, list, show, change, pause, delete, preview."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel

from leasehold.api import shown
from leasehold.api.context import Asked, Context
from leasehold.api.documents import (
    ChangeTrigger,
    DecisionsDocument,
    Limit,
    OfEveryone,
    OfTenant,
    PauseTrigger,
    PreviewDocument,
    PreviewSchedule,
    SaveTrigger,
    TriggerDocument,
    TriggerIdPath,
    TriggersDocument,
)
from leasehold.api.etags import IfMatch, etag, read_version
from leasehold.api.route import Routes, answer
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission
from leasehold.model.cron import Cron
from leasehold.model.schedule import EPOCH, Every, Schedule
from leasehold.model.trigger import Trigger, trigger_id
from leasehold.model.trigger_document import rule_from_document
from leasehold.operations import deleted_triggers, views
from leasehold.operations import triggers as operations

routes = Routes("triggers")
Count = Annotated[int, Query(ge=1, le=50)]
Zone = Annotated[str, Query(max_length=100, description="The IANA zone of the reader.")]


@routes.add("GET", "/jobs/triggers", Permission.TRIGGERS_READ, TriggersDocument)
async def list_triggers(
    context: Asked,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=36)] = None,
    tenant: OfTenant = None,
    everyone: OfEveryone = False,
) -> Response:
    """Lists the triggers of a tenant, the oldest first, without those for all tenants.

    A token of all tenants that names none gets the triggers of all owners.
    """
    owner, after = context.owner_or_all(tenant, everyone), None if cursor is None else trigger_id(cursor)
    found = await context.ask(lambda store: operations.list_all(store, owner, limit, after))
    documents = [shown.trigger(context, each) for each in found]
    return answer({"triggers": documents, "next": found[-1].id if len(found) == limit else None})


@routes.add("POST", "/jobs/triggers", Permission.TRIGGERS_WRITE, TriggerDocument, status=201)
async def save_trigger(
    context: Asked, sent: SaveTrigger, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Saves a trigger. A schedule fires after this moment."""
    owner, rule = context.owner(tenant, everyone), rule_from_document(_given_fields(sent))
    actor = context.actor
    saved = await context.call(lambda catalog: operations.create(owner, rule, actor.name, catalog, actor))
    return _answer(context, saved, 201)


@routes.add("POST", "/jobs/triggers/preview", Permission.TRIGGERS_READ, PreviewDocument)
async def preview_schedule(context: Asked, sent: PreviewSchedule) -> Response:
    """Lists the next runs of a schedule that is not saved, with changes of the clock."""
    schedule = _schedule(sent)
    found = await context.ask(
        lambda store: operations.preview_schedule(store, schedule, sent.count, sent.viewer_timezone)
    )
    return answer(views.preview(found))


@routes.add("GET", "/jobs/triggers/find", Permission.TRIGGERS_READ, TriggerDocument)
async def find_trigger(
    context: Asked,
    name: Annotated[str, Query(min_length=1, max_length=200, description="Its id, the end of it, or its label.")],
    tenant: OfTenant = None,
    everyone: OfEveryone = False,
) -> Response:
    """Finds a trigger by its id, the last 4 or more characters of it, or its label."""
    owner = context.owner_or_all(tenant, everyone)
    return _answer(context, await context.ask(lambda store: operations.find(store, name, owner)))


@routes.add("GET", "/jobs/triggers/{trigger_id}", Permission.TRIGGERS_READ, TriggerDocument)
async def show_trigger(
    context: Asked, trigger: TriggerIdPath, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Shows a trigger. Its ETag is for If-Match."""
    owner = context.owner(tenant, everyone)
    return _answer(context, await context.ask(lambda store: operations.get(store, owner, trigger)))


@routes.add("PATCH", "/jobs/triggers/{trigger_id}", Permission.TRIGGERS_WRITE, TriggerDocument)
async def change_trigger(
    context: Asked,
    trigger: TriggerIdPath,
    sent: ChangeTrigger,
    if_match: IfMatch = None,
    tenant: OfTenant = None,
    everyone: OfEveryone = False,
) -> Response:
    """Changes fields of a trigger; what is left out stays. With If-Match, answers 412 if it was changed meanwhile."""
    owner, seen = context.owner(tenant, everyone), read_version(if_match)
    changes = sent.model_dump(exclude_unset=True)
    changed = await context.call(
        lambda catalog: operations.update_by_document(
            owner, trigger, changes, catalog, version=seen, actor=context.actor
        )
    )
    return _answer(context, changed)


@routes.add("DELETE", "/jobs/triggers/{trigger_id}", Permission.TRIGGERS_WRITE, None, status=204)
async def delete_trigger(
    context: Asked,
    trigger: TriggerIdPath,
    force: Annotated[bool, Query(description="Also one of code that is gone.")] = False,
    if_match: IfMatch = None,
    tenant: OfTenant = None,
    everyone: OfEveryone = False,
) -> Response:
    """Deletes a trigger; its jobs stay. It can be restored."""
    owner, seen = context.owner(tenant, everyone), read_version(if_match)
    await context.ask(
        lambda store: operations.delete(store, owner, trigger, force=force, version=seen, actor=context.actor)
    )
    return Response(status_code=204)


@routes.add("POST", "/jobs/triggers/{trigger_id}/restore", Permission.TRIGGERS_WRITE, TriggerDocument)
async def restore_trigger(
    context: Asked, trigger: TriggerIdPath, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Brings a deleted trigger back as it was. A schedule begins at this moment, and catches up nothing."""
    owner = context.owner(tenant, everyone)
    restored = await context.call(lambda catalog: deleted_triggers.restore(owner, trigger, catalog, context.actor))
    return _answer(context, restored)


@routes.add("POST", "/jobs/triggers/{trigger_id}/pause", Permission.TRIGGERS_WRITE, TriggerDocument)
async def pause_trigger(
    context: Asked, trigger: TriggerIdPath, sent: PauseTrigger, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Pauses a trigger, also one of the code."""
    if sent.seconds is not None and sent.until is not None:
        raise InvalidInput("seconds and until can't both be the end. Nothing was changed.", fix="Leave one out.")
    owner, lasting = (
        context.owner(tenant, everyone),
        sent.until if sent.seconds is None else timedelta(seconds=sent.seconds),
    )
    paused = await context.ask(
        lambda store: operations.pause(store, owner, trigger, sent.why, lasting, actor=context.actor)
    )
    return _answer(context, paused)


@routes.add("POST", "/jobs/triggers/{trigger_id}/resume", Permission.TRIGGERS_WRITE, TriggerDocument)
async def resume_trigger(
    context: Asked, trigger: TriggerIdPath, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Ends the pause of a trigger. Fires that it has missed are caught up by its policy."""
    owner = context.owner(tenant, everyone)
    return _answer(
        context, await context.ask(lambda store: operations.resume(store, owner, trigger, actor=context.actor))
    )


@routes.add("GET", "/jobs/triggers/{trigger_id}/preview", Permission.TRIGGERS_READ, PreviewDocument)
async def preview_trigger(
    context: Asked,
    trigger: TriggerIdPath,
    count: Count = 5,
    viewer_timezone: Zone = "UTC",
    tenant: OfTenant = None,
    everyone: OfEveryone = False,
) -> Response:
    """Lists the next runs of a trigger with a schedule."""
    owner = context.owner(tenant, everyone)
    _, found = await context.ask(
        lambda store: operations.preview_trigger(store, owner, trigger, count, viewer_timezone)
    )
    return answer(views.preview(found))


@routes.add("GET", "/jobs/triggers/{trigger_id}/decisions", Permission.TRIGGERS_READ, DecisionsDocument)
async def list_decisions(
    context: Asked, trigger: TriggerIdPath, limit: Limit = 50, tenant: OfTenant = None, everyone: OfEveryone = False
) -> Response:
    """Lists what a trigger decided lately, the newest first: fired, deduped, skipped, missed, or an error."""
    owner = context.owner(tenant, everyone)
    found = await context.ask(lambda store: operations.decisions(store, owner, trigger, limit))
    return answer({"decisions": [views.decision(each) for each in found]})


def _given_fields(sent: BaseModel) -> dict[str, Any]:
    """Returns the fields that say something: null stands for the default."""
    return {name: value for name, value in sent.model_dump(exclude_unset=True).items() if value is not None}


def _schedule(sent: PreviewSchedule) -> Schedule:
    if (sent.cron_expr is None) == (sent.every is None):
        raise InvalidInput("a schedule has either cron_expr or every. Nothing was read.", fix="Send one of the two.")
    if sent.cron_expr is not None:
        return Cron(sent.cron_expr, sent.timezone)
    return Every(sent.every or 0, EPOCH if sent.anchor is None else sent.anchor)


def _answer(context: Context, trigger: Trigger, status: int = 200) -> Response:
    return answer(shown.trigger(context, trigger), status, {"ETag": etag(trigger.version)})

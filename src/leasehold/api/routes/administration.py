"""Limits, pauses, tenants and workers, for super admins."""

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Response

from leasehold.api.context import Asked
from leasehold.api.documents import (
    ActivityDocument,
    HealthDocument,
    OkDocument,
    ScopesDocument,
    SetLimit,
    SetPause,
    WorkersDocument,
)
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.limits import ScopeKind
from leasehold.operations import activity, admin, health, views

routes = Routes("administration")
Kind = Annotated[ScopeKind, Path(description="tenant or definition.")]
Key = Annotated[str, Path(max_length=100, description="The tenant's id, or the definition's key.")]


@routes.add("GET", "/admin/limits", Permission.LIMITS_READ, ScopesDocument)
async def list_limits(context: Asked) -> Response:
    """Lists the tenants and definitions that have a limit or a pause."""
    return answer({"scopes": [views.scope(each) for each in await context.ask(admin.scopes)]})


@routes.add("PUT", "/admin/limits/{kind}/{key}", Permission.LIMITS_WRITE, OkDocument)
async def set_limit(context: Asked, kind: Kind, key: Key, sent: SetLimit) -> Response:
    """Limits how many jobs of a tenant or a definition run at once. Jobs that already run go on."""
    scope = admin.scope_of(kind, key)
    await context.ask(lambda store: admin.limit(store, scope, sent.max_running, context.actor))
    return answer({"ok": True})


@routes.add("POST", "/admin/limits/{kind}/{key}/pause", Permission.LIMITS_WRITE, OkDocument)
async def pause_scope(context: Asked, kind: Kind, key: Key, sent: SetPause) -> Response:
    """Starts no more jobs of a tenant or a definition until it is resumed. New ones can be enqueued."""
    scope, length = admin.scope_of(kind, key), None if sent.seconds is None else timedelta(seconds=sent.seconds)
    await context.ask(lambda store: admin.pause(store, scope, sent.why, length, context.actor))
    return answer({"ok": True})


@routes.add("POST", "/admin/limits/{kind}/{key}/resume", Permission.LIMITS_WRITE, OkDocument)
async def resume_scope(context: Asked, kind: Kind, key: Key) -> Response:
    """Ends a pause."""
    scope = admin.scope_of(kind, key)
    await context.ask(lambda store: admin.resume(store, scope, context.actor))
    return answer({"ok": True})


@routes.add("GET", "/admin/health", Permission.WORKERS_READ, HealthDocument)
async def examine_health(context: Asked) -> Response:
    """Examines database, schema, wakes, clock, workers, schedules and figures, as `leasehold doctor` does."""
    findings = [*await context.guard.backend.examine(), await context.ask(health.examine_figures)]
    return answer({"findings": [views.fields_of(each) for each in findings]})


@routes.add("GET", "/admin/workers", Permission.WORKERS_READ, WorkersDocument)
async def list_workers(context: Asked) -> Response:
    """Lists the workers that have a registration, with their leases and what they serve."""
    return answer({"workers": [views.worker(each) for each in await context.ask(admin.workers)]})


@routes.add("GET", "/admin/activity", Permission.WORKERS_READ, ActivityDocument)
async def show_activity(context: Asked) -> Response:
    """Shows what happens now: waiting and running jobs by definition and tenant, rates of ends, and the workers.

    Rates are jobs a second since the moment `since`; null on an engine that keeps no times of ends, like DynamoDB.
    """
    return answer(await context.ask(activity.read))

"""The life of tenants, for super admins: listed, registered, looked at, exported, deleted."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from leasehold.api.admin_documents import NewTenant, OperationDocument, TenantDocument, TenantPath, TenantsDocument
from leasehold.api.context import Asked, Context
from leasehold.api.documents import Cursor, Limit
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.operation import read_pace
from leasehold.operations import admin, tenants, views
from leasehold.operations.catalog import Catalog

routes = Routes("tenants")
READ_AT_ONCE = 100


@routes.add("GET", "/admin/tenants", Permission.TENANTS_READ, TenantsDocument)
async def list_tenants(context: Asked, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Lists tenants by name."""
    page = await context.ask(lambda store: tenants.list_page(store, cursor, limit))
    strict = await context.ask(lambda store: store.strict_tenants())
    return answer({"tenants": page.tenants, "strict": strict, "next": page.next})


@routes.add("POST", "/admin/tenants", Permission.TENANTS_WRITE, TenantDocument, status=201)
async def register_tenant(context: Asked, sent: NewTenant) -> Response:
    """Registers a tenant before its first job. One that was registered before stays as it is."""
    new = tenant_id(sent.id)
    created, _ = await context.ask(lambda store: admin.change_tenants(store, new, None, context.actor))
    return answer({"tenant": new, "created": created}, 201)


@routes.add("GET", "/admin/tenants/{tenant_id}", Permission.TENANTS_READ, TenantDocument)
async def show_tenant(context: Asked, tenant: TenantPath) -> Response:
    """Shows what a tenant has: jobs by status and triggers, each up to 10,000, its limit and its pause."""
    return answer(views.usage(await context.ask(lambda store: tenants.usage(store, tenant))))


@routes.add(
    "GET",
    "/admin/tenants/{tenant_id}/export",
    Permission.TENANTS_WRITE,
    None,
    media="application/x-ndjson",
    timed=False,
)
async def export_tenant(context: Asked, tenant: TenantPath) -> Response:
    """Streams all that a tenant has as JSON lines, without secrets."""
    await context.ask(lambda store: tenants.usage(store, tenant))
    return StreamingResponse(_lines(context, tenant), 200, media_type="application/x-ndjson")


@routes.add("DELETE", "/admin/tenants/{tenant_id}", Permission.TENANTS_WRITE, OperationDocument, status=202)
async def delete_tenant(
    context: Asked,
    tenant: TenantPath,
    pace: Annotated[str | None, Query(max_length=40, description="At most so many rows, as 1000/s.")] = None,
) -> Response:
    """Begins to delete a tenant with all that it has. New jobs are refused at once, running ones are stopped."""
    actor, speed = context.actor, None if pace is None else read_pace(pace)
    begun = await context.begin(
        lambda store: tenants.delete(store, tenant, pace=speed, created_by=actor.name, actor=actor)
    )
    return answer(views.operation(begun), 202)


async def _lines(context: Context, tenant: TenantId) -> AsyncIterator[bytes]:
    """Yields the lines of an export, read by calls of some documents each: a slow reader keeps no call waiting."""
    documents: AsyncGenerator[dict[str, Any], None] | None = None

    async def read(catalog: Catalog) -> list[dict[str, Any]]:
        nonlocal documents
        documents = documents or tenants.export(catalog.store, tenant)
        some: list[dict[str, Any]] = []
        async for document in documents:
            some.append(document)
            if len(some) == READ_AT_ONCE:
                break
        return some

    async def end(catalog: Catalog) -> None:
        if documents is not None:
            await documents.aclose()

    try:
        while some := await context.call(read):
            yield b"".join(views.as_json(document) + b"\n" for document in some)
    finally:
        await context.call(end)

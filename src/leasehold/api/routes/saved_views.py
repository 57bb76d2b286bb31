"""Views of the list of jobs that people have saved."""

from typing import Annotated

from fastapi import Query, Response

from leasehold.api.admin_documents import SaveView, ViewDocument, ViewsDocument
from leasehold.api.context import Asked, require_permission
from leasehold.api.documents import OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.operations import saved_views
from leasehold.store.saved_views import LONGEST_NAME

routes = Routes("views")
Name = Annotated[str, Query(max_length=LONGEST_NAME, description="The name of the view.")]
Shared = Annotated[bool, Query(description="One that all people of the tenant share.")]


@routes.add("GET", "/views", Permission.JOBS_READ, ViewsDocument)
async def list_views(context: Asked, tenant: OfTenant = None) -> Response:
    """Lists saved views of the list of jobs: one's own, and those that are shared."""
    owner = context.tenant_or_all(tenant)
    found = await context.ask(lambda store: saved_views.read(store, owner, context.principal))
    return answer({"views": [saved_views.as_document(each) for each in found]})


@routes.add("POST", "/views", Permission.JOBS_READ, ViewDocument)
async def save_view(context: Asked, sent: SaveView, tenant: OfTenant = None) -> Response:
    """Saves a view, in the place of one with the same name."""
    if sent.shared:
        require_permission(context.principal, Permission.JOBS_CHANGE)
    owner = context.tenant_or_all(tenant)
    saved = await context.ask(
        lambda store: saved_views.save(store, owner, context.principal, sent.name, sent.query, shared=sent.shared)
    )
    return answer(saved_views.as_document(saved))


@routes.add("DELETE", "/views", Permission.JOBS_READ, None, status=204)
async def delete_view(context: Asked, name: Name, shared: Shared = False, tenant: OfTenant = None) -> Response:
    """Deletes a view. To delete a shared one needs the permission jobs:change."""
    if shared:
        require_permission(context.principal, Permission.JOBS_CHANGE)
    owner = context.tenant_or_all(tenant)
    if not await context.ask(lambda store: saved_views.delete(store, owner, context.principal, name, shared=shared)):
        raise saved_views.unknown_view(name, shared=shared)
    return Response(status_code=204)

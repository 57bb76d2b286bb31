"""Operations on many jobs of a tenant: planned, begun, followed, aborted."""

from fastapi import Response

from leasehold.api.admin_documents import BeginOperation, OperationDocument, OperationPath, OperationsDocument
from leasehold.api.context import Asked, Context, require_permission
from leasehold.api.documents import Cursor, Limit, OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.job import JobId, TenantId
from leasehold.model.operation import OperationKind, read_pace
from leasehold.operations import bulk, views
from leasehold.store import Filter, NewOperation

routes = Routes("operations")


@routes.add("POST", "/operations", Permission.JOBS_CHANGE, OperationDocument, status=202)
async def begin_operation(context: Asked, sent: BeginOperation, tenant: OfTenant = None) -> Response:
    """Begins to retry or cancel all jobs that match; a worker or this server runs it. `plan` only counts them."""
    new = _new(context, sent, context.tenant(tenant))
    planned = await context.ask(lambda store: bulk.plan(store, new))
    if sent.plan:
        return answer(views.plan(planned), 202)
    return answer(views.operation(await context.begin(lambda store: bulk.begin(store, planned, context.actor))), 202)


@routes.add("GET", "/operations", Permission.JOBS_READ, OperationsDocument)
async def list_operations(
    context: Asked, limit: Limit = 50, cursor: Cursor = None, tenant: OfTenant = None
) -> Response:
    """Lists operations, the newest first: of the tenant, or of all tenants."""
    owner = context.tenant_or_all(tenant)
    page = await context.ask(lambda store: bulk.list_page(store, owner, cursor, limit))
    return answer({"operations": [views.operation(each) for each in page.operations], "next": page.next})


@routes.add("GET", "/operations/{operation_id}", Permission.JOBS_READ, OperationDocument)
async def show_operation(context: Asked, operation: OperationPath, tenant: OfTenant = None) -> Response:
    """Shows an operation and its progress. The server goes on with one that no other process runs."""
    return answer(views.operation(await context.look_at(operation, context.tenant_or_all(tenant))))


@routes.add("POST", "/operations/{operation_id}/abort", Permission.JOBS_CHANGE, OperationDocument)
async def abort_operation(context: Asked, operation: OperationPath, tenant: OfTenant = None) -> Response:
    """Ends an operation before its next batch. Jobs that it has changed stay changed."""
    owner = context.tenant_or_all(tenant)
    before = await context.ask(lambda store: bulk.get(store, operation, owner))
    require_permission(context.principal, bulk.permission_to_abort(before))
    return answer(
        views.operation(await context.ask(lambda store: bulk.abort(store, operation, owner, context.actor)))
    )


def _new(context: Context, sent: BeginOperation, owner: TenantId) -> NewOperation:
    kind = OperationKind(sent.kind)
    where = Filter(
        statuses=bulk.read_statuses(kind, sent.statuses),
        definitions=tuple(sent.definitions),
        source=sent.source,
        correlation_id=sent.correlation_id,
        created_after=sent.created_after,
        created_before=sent.created_before,
        error_group=sent.error_group,
    )
    pace = None if sent.pace is None else read_pace(sent.pace)
    return bulk.new_operation(
        kind,
        owner,
        where,
        pace,
        canary=sent.canary,
        created_by=context.principal.name,
        jobs=tuple(JobId(str(job)) for job in sent.jobs),
        as_of=sent.as_of,
        reason=sent.reason,
    )

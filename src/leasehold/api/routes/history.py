"""Figures of jobs over time, and the audit log."""

from typing import Annotated

from fastapi import Query, Response
from pydantic import AwareDatetime

from leasehold.api import shown
from leasehold.api.admin_documents import AuditDocument, ChartDocument
from leasehold.api.context import Asked
from leasehold.api.documents import Cursor, Limit, OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.series import By
from leasehold.operations import audit, series, views
from leasehold.store import AuditFilter

routes = Routes("history")


@routes.add("GET", "/jobs/series", Permission.JOBS_READ, ChartDocument)
async def show_series(
    context: Asked,
    window: Annotated[str, Query(max_length=40, description="15m to 400d.")] = "1h",
    by: Annotated[By, Query(description="One series for each of these.")] = By.ALL,
    definition: Annotated[str | None, Query(max_length=100)] = None,
    tenant: OfTenant = None,
) -> Response:
    """Returns figures over time, for charts: of the tenant, or of all tenants.

    An engine without the ability `series`, like DynamoDB, keeps none: 422. `GET /me` tells the abilities.
    """
    owner = context.tenant_or_all(tenant)
    chart = await context.ask(lambda store: series.read(store, owner, window, by, definition))
    return answer(views.chart(chart))


@routes.add("GET", "/audit", Permission.AUDIT_READ, AuditDocument)
async def list_audit_entries(
    context: Asked,
    action: Annotated[str | None, Query(max_length=100, description="As in job.cancel.")] = None,
    after: AwareDatetime | None = None,
    before: AwareDatetime | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    tenant: OfTenant = None,
) -> Response:
    """Lists changes by people and tools, the newest first: about the tenant, or about all tenants."""
    where = AuditFilter(context.tenant_or_all(tenant), action, after, before)
    page = await context.ask(lambda store: audit.entries(store, where, cursor, limit))
    return answer({"entries": [shown.audit_entry(context, each) for each in page.entries], "next": page.next})

"""Usage: attempts, run time and processor time."""

from typing import Annotated

from fastapi import Depends, Query, Response

from leasehold.api.admin_documents import UsageDocument
from leasehold.api.context import Asked
from leasehold.api.documents import OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.model.usage import DEFAULT_LENGTH, Usage
from leasehold.operations import usage

routes = Routes("usage")


async def _read(
    context: Asked,
    since: Annotated[
        str, Query(max_length=60, description="24h before now, or a time: 2030-01-31T09:00Z. Widened to the hour.")
    ] = DEFAULT_LENGTH,
    until: Annotated[str | None, Query(max_length=60, description="Default: now.")] = None,
    by: Annotated[
        str, Query(max_length=60, description="One or more of tenant, definition, and hour or day, with commas.")
    ] = "",
    definition: Annotated[str | None, Query(max_length=100)] = None,
    tenant: OfTenant = None,
) -> Usage:
    owner = context.tenant_or_all(tenant)
    return await context.ask(lambda store: usage.read(store, owner, since, until, by, definition))


Found = Annotated[Usage, Depends(_read)]


@routes.add("GET", "/usage", Permission.JOBS_READ, UsageDocument)
async def show_usage(found: Found) -> Response:
    """Returns the usage of the tenant, or of all tenants: attempts that ended, their run time and processor time.

    `cpu_seconds` is the processor time of attempts that ran a command or a handler with isolation="process";
    `cpu_unknown_attempts` counts the others, and those whose worker was killed. An engine without the ability
    `usage` answers 422.
    """
    return answer(usage.as_document(found))


@routes.add("GET", "/usage.csv", Permission.JOBS_READ, None, media="text/csv")
async def export_usage(found: Found) -> Response:
    """Returns usage as lines with commas, for spreadsheets. The parameters are those of `GET /usage`."""
    return Response(usage.as_csv(usage.as_document(found)), media_type="text/csv; charset=utf-8")

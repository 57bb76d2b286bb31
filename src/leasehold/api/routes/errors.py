"""Error groups: failed and dead jobs by what they failed with."""

from typing import Annotated

from fastapi import Path, Response

from leasehold.api import shown
from leasehold.api.admin_documents import ErrorGroupDocument, ErrorGroupsDocument
from leasehold.api.context import Asked
from leasehold.api.documents import OfTenant
from leasehold.api.route import Routes, answer
from leasehold.model.access import Permission
from leasehold.operations import error_groups

routes = Routes("errors")
GroupPath = Annotated[str, Path(alias="group_id", max_length=40, description="16 hexadecimal digits.")]


@routes.add("GET", "/errors", Permission.JOBS_READ, ErrorGroupsDocument)
async def list_error_groups(context: Asked, tenant: OfTenant = None) -> Response:
    """Lists groups of failed and dead jobs with the same error: of the tenant, or of all tenants."""
    owner = context.tenant_or_all(tenant)
    found = await context.ask(lambda store: error_groups.read(store, owner))
    groups = [shown.error_group(context, each) for each in found.groups]
    return answer({"groups": groups, "is_whole": found.is_whole})


@routes.add("GET", "/errors/{group_id}", Permission.JOBS_READ, ErrorGroupDocument)
async def show_error_group(context: Asked, group: GroupPath, tenant: OfTenant = None) -> Response:
    """Shows a group, and which values the fields of its newest payloads have."""
    owner = context.tenant(tenant)
    story = await context.ask(lambda store: error_groups.get(store, owner, group))
    documents = [shown.job(context, job) for job in story.jobs]
    shares = error_groups.count_fields(each["payload"] for each in documents)
    fields = [error_groups.as_document(share) for share in shares]
    return answer(shown.error_group(context, story.group) | {"fields": fields})

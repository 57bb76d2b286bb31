"""ServerControl: the verbs as requests to a server of the HTTP API. The audit log names the token."""

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.control import records
from leasehold.control.protocol import Document
from leasehold.control.requests import Requests, of_tenant, path_of
from leasehold.control.server_admin import ServerDefinitions, ServerLimits, ServerTenants, ServerTokens, ServerViews
from leasehold.control.server_jobs import ServerJobs, ServerOperations
from leasehold.control.server_triggers import ServerEvents, ServerTriggers
from leasehold.engine import ServerClient
from leasehold.errors import NoTenant
from leasehold.model.access import Permission
from leasehold.model.job import TenantId
from leasehold.model.series import By
from leasehold.store import AuditFilter, AuditPage, WorkerRecord


class ServerControl:
    """The verbs on a server, with the permissions of a token. Closes the client at its end."""

    def __init__(self, client: ServerClient) -> None:
        self._requests = requests = Requests(client)
        self.jobs = ServerJobs(requests)
        self.operations = ServerOperations(requests)
        self.definitions = ServerDefinitions(requests)
        self.triggers = ServerTriggers(requests)
        self.events = ServerEvents(requests)
        self.tenants = ServerTenants(requests)
        self.limits = ServerLimits(requests)
        self.tokens = ServerTokens(requests)
        self.views = ServerViews(requests)

    async def __aenter__(self) -> "ServerControl":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._requests.client.close()

    @property
    def hidden(self) -> Mapping[str, Permission]:
        return self._requests.hidden

    async def tenant(self, named: TenantId | None, missing: NoTenant) -> TenantId:
        if named is not None:
            return named
        own = (await self._requests.get("/me"))["tenant_id"]
        if own is None:
            raise missing
        return TenantId(own)

    async def workers(self) -> Sequence[WorkerRecord]:
        return [records.worker(each) for each in (await self._requests.get("/admin/workers"))["workers"]]

    async def audit(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        given = {"action": where.action, "after": where.after, "before": where.before}
        params = {name: _text(value) for name, value in given.items() if value is not None} | of_tenant(where.tenant)
        found, following = await self._requests.pages("/audit", "entries", params, cursor, limit)
        return AuditPage([records.audit_entry(each) for each in found], following)

    async def error_groups(self, tenant: TenantId | None) -> Document:
        found: Document = await self._requests.get("/errors", of_tenant(tenant))
        for group in found["groups"]:
            self._requests.note_hidden(group)
        return found

    async def error_group(self, tenant: TenantId, group: str) -> Document:
        found: Document = await self._requests.get(path_of("/errors", group), of_tenant(tenant))
        self._requests.note_hidden(found)
        return found

    async def series(self, tenant: TenantId | None, window: str, by: By, definition: str | None) -> Document:
        named = {} if definition is None else {"definition": definition}
        chart: Document = await self._requests.get(
            "/jobs/series", {"window": window, "by": by.value, **named, **of_tenant(tenant)}
        )
        return chart

    async def activity(self) -> Document:
        found: Document = await self._requests.get("/admin/activity")
        return found

    async def usage(
        self, tenant: TenantId | None, since: str, until: str | None, by: str, definition: str | None
    ) -> Document:
        given = {"since": since, "until": until, "by": by, "definition": definition}
        named = {name: value for name, value in given.items() if value is not None}
        found: Document = await self._requests.get("/usage", {**named, **of_tenant(tenant)})
        return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value.isoformat())

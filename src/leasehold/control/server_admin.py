"""The definitions, tenants, limits, tokens and saved views of a server."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from leasehold.control import records
from leasehold.control.protocol import Document
from leasehold.control.requests import Topic, of_tenant, path_of
from leasehold.control.server_jobs import pace_text
from leasehold.errors import InvalidInput
from leasehold.model.access import Permission, Role
from leasehold.model.job import TenantId
from leasehold.model.limits import Scope
from leasehold.model.operation import Pace
from leasehold.model.token import TokenId, TokenRecord
from leasehold.operations.tenants import TenantPage
from leasehold.store import Operation, ScopeRecord, TenantUsage

_DEFINITIONS = "/admin/jobs/definitions"
_TENANTS = "/admin/tenants"
_TOKENS = "/admin/tokens"


class ServerDefinitions(Topic):
    async def list(self) -> Sequence[Document]:
        found: Sequence[Document] = (await self.requests.get("/jobs/definitions"))["definitions"]
        return found

    async def details(self, key: str) -> Document:
        found: Document = await self.requests.get(path_of(_DEFINITIONS, key))
        return found

    async def create(self, key: str, given: Mapping[str, Any]) -> Document:
        made: Document = await self.requests.post(_DEFINITIONS, {**given, "key": key})
        return made

    async def override(self, key: str, given: Mapping[str, Any], revision: int | None) -> Document:
        return await self._change(key, [], given, revision, "PATCH")

    async def reset(self, key: str, fields: Sequence[str], revision: int | None) -> Document:
        return await self._change(key, ["reset"], {"fields": list(fields)}, revision)

    async def set_active(self, key: str, active: bool) -> Document:
        return await self._change(key, ["activate" if active else "deactivate"], None)

    async def _change(
        self, key: str, verb: Sequence[str], sent: Any, revision: int | None = None, method: str = "POST"
    ) -> Document:
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        path = path_of(_DEFINITIONS, key, *verb)
        changed: Document = await self.requests.post(path, sent, None, headers, method)
        return changed


class ServerTenants(Topic):
    async def list(self, cursor: str | None, limit: int) -> tuple[TenantPage, bool]:
        page = await self.requests.get(_TENANTS, {"limit": "1"})
        found, following = await self.requests.pages(_TENANTS, "tenants", {}, cursor, limit)
        return TenantPage([TenantId(str(each)) for each in found], following), bool(page["strict"])

    async def change(self, new: TenantId | None, strict: bool | None) -> tuple[bool, bool]:
        if strict is not None:
            raise InvalidInput(
                "strict tenants can't be turned on or off over the API. Nothing was changed.",
                fix="Do it where the database can be reached, by LEASEHOLD_URL.",
            )
        made = await self.requests.post(_TENANTS, {"id": new})
        return bool(made["created"]), bool((await self.requests.get(_TENANTS, {"limit": "1"}))["strict"])

    async def usage(self, tenant: TenantId) -> TenantUsage:
        return records.usage(await self.requests.get(path_of(_TENANTS, tenant)))

    def export(self, tenant: TenantId) -> AsyncGenerator[Document, None]:
        return self.requests.client.stream(path_of(_TENANTS, tenant, "export"))

    async def delete(self, tenant: TenantId, pace: Pace | None) -> Operation:
        params = {} if pace is None else {"pace": pace_text(pace)}
        path = path_of(_TENANTS, tenant)
        return records.operation(await self.requests.post(path, None, params, method="DELETE"))


class ServerLimits(Topic):
    async def list(self) -> Sequence[ScopeRecord]:
        return [records.scope(each) for each in (await self.requests.get("/admin/limits"))["scopes"]]

    async def limit(self, scope: Scope, max_running: int | None) -> None:
        await self.requests.post(self._path(scope), {"max_running": max_running}, method="PUT")

    async def pause(self, scope: Scope, why: str, length: timedelta | None) -> None:
        sent = {"why": why} if length is None else {"why": why, "seconds": length.total_seconds()}
        await self.requests.post(self._path(scope, "pause"), sent)

    async def resume(self, scope: Scope) -> None:
        await self.requests.post(self._path(scope, "resume"), None)

    def _path(self, scope: Scope, *verb: str) -> str:
        return path_of("/admin/limits", scope.kind.value, scope.key, *verb)


class ServerTokens(Topic):
    async def create(
        self,
        name: str,
        role: Role,
        *,
        tenant: TenantId | None,
        permissions: frozenset[Permission] | None,
        definitions: tuple[str, ...] | None,
        life: timedelta,
    ) -> tuple[TokenRecord, str]:
        sent = {
            "name": name,
            "role": role.value,
            "tenant": tenant,
            "permissions": None if permissions is None else sorted(each.value for each in permissions),
            "definitions": definitions,
            "life": _seconds(life),
        }
        made = await self.requests.post(_TOKENS, sent)
        return records.token(made), str(made["token"])

    async def list(self, limit: int, tenant: TenantId | None) -> Sequence[TokenRecord]:
        found, _ = await self.requests.pages(_TOKENS, "tokens", of_tenant(tenant), None, limit)
        return [records.token(each) for each in found]

    async def rotate(self, token: TokenId, *, life: timedelta, overlap: timedelta) -> tuple[TokenRecord, str]:
        sent = {"life": _seconds(life), "overlap": _seconds(overlap)}
        made = await self.requests.post(path_of(_TOKENS, token, "rotate"), sent)
        return records.token(made), str(made["token"])

    async def revoke(self, token: TokenId) -> TokenRecord:
        return records.token(await self.requests.post(path_of(_TOKENS, token, "revoke"), None))


class ServerViews(Topic):
    async def list(self, tenant: TenantId | None) -> Sequence[Document]:
        found: Sequence[Document] = (await self.requests.get("/views", of_tenant(tenant)))["views"]
        return found

    async def save(self, tenant: TenantId | None, name: str, query: str, *, shared: bool) -> Document:
        sent = {"name": name, "query": query, "shared": shared}
        saved: Document = await self.requests.post("/views", sent, of_tenant(tenant))
        return saved

    async def delete(self, tenant: TenantId | None, name: str, *, shared: bool) -> None:
        params = of_tenant(tenant) | {"name": name} | ({"shared": "true"} if shared else {})
        await self.requests.post("/views", None, params, method="DELETE")


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():f}s"

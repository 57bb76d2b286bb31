"""The context of a request: its principal, its tenant, its id; and how they are found out."""

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from fastapi import Depends, Request

from leasehold.api.backend import Backend
from leasehold.api.limits import ApiLimits, RequestRates
from leasehold.api.live import LiveChanges
from leasehold.api.open_streams import Streams
from leasehold.api.own_site import require_own_cookies
from leasehold.api.readiness import Readiness
from leasehold.errors import InvalidInput, NotAuthenticated, NoTenant, NotPermitted
from leasehold.model.access import Permission, Principal
from leasehold.model.audit import Actor
from leasehold.model.job import TenantId
from leasehold.model.trace_context import TraceContext
from leasehold.model.trigger import ALL
from leasehold.operations import bulk
from leasehold.operations.catalog import Catalog
from leasehold.operations.remote_work import RemoteWork
from leasehold.operations.tokens import FRESH, TokenCheck
from leasehold.operations.triggers import Owner
from leasehold.store import Operation, Store
from leasehold.telemetry.productions import Production, Untraced

T = TypeVar("T")

Resolve = Callable[[Request], Principal | Awaitable[Principal | None] | None]
"""Returns the principal of a request by the app's own means, like a session or a JWT; None if it is not known."""

REQUEST_ID = "x-request-id"
# A stream looks every 2 s, and ends within 5 s after its token was revoked.
FRESH_IN_STREAMS = 2.5
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")
_SANE_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def choose_request_id(sent: str | None) -> str:
    """Returns the id that the client sent, if it is short and plain; else makes one."""
    return sent if sent is not None and _SANE_ID.fullmatch(sent) else str(uuid4())


def require_permission(principal: Principal, permission: Permission) -> None:
    """Raises NotPermitted."""
    if not principal.may(permission):
        raise NotPermitted(
            f"{permission.value} is needed for this, and the role {principal.role.value} has it not here. "
            "Nothing was done.",
            fix="Ask an administrator for a token with this permission.",
        )


class Guard:
    """Finds out who sends a request, and refuses those that may not: by tokens, and by the app's own resolver."""

    def __init__(self, backend: Backend, resolve: Resolve | None, tokens: bool, limits: ApiLimits) -> None:
        self.backend = backend
        self.limits = limits
        self.streams = Streams(limits.streams, limits.tenant_streams)
        self.live = LiveChanges(backend)
        self.readiness = Readiness(backend)
        self._resolve = resolve
        self._tokens = TokenCheck() if tokens else None
        self._rates = RequestRates(limits)

    async def admit(self, request: Request, permission: Permission) -> None:
        """Sets the context of a request. Raises NotAuthenticated, NotPermitted, TooManyRequests."""
        if permission is Permission.OPEN:
            return
        principal = await self._principal(request)
        if principal is None:
            raise NotAuthenticated(
                "the request does not say who sends it. Nothing was done.",
                fix="Send a token: Authorization: Bearer lh_…; leasehold token create makes one.",
            )
        self.require(principal, permission)
        request.state.context = Context(self, principal, request.state.request_id, request)

    def require(self, principal: Principal, permission: Permission) -> None:
        """Counts a request of a principal. Raises NotPermitted, TooManyRequests."""
        works = permission is Permission.WORK and principal.may(permission)
        self._rates.count(principal.token or f"name:{principal.name}", principal.tenant, works=works)
        require_permission(principal, permission)

    async def admits_still(self, request: Request, permission: Permission, before: Principal) -> bool:
        """Returns whether the sender of a request that goes on may still read what it asked for."""
        try:
            principal = await self._principal(request, fresh=FRESH_IN_STREAMS)
        except NotAuthenticated:
            return False
        return principal is not None and principal.may(permission) and principal.tenant == before.tenant

    async def _principal(self, request: Request, fresh: float = FRESH) -> Principal | None:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if self._tokens is not None and scheme.lower() == "bearer" and text.strip().startswith("lh_"):
            check, token = self._tokens, text.strip()
            known = check.known(token, fresh)
            return known or await self.backend.call(lambda catalog: check.read(catalog.store, token))
        if self._resolve is None:
            return None
        require_own_cookies(request)
        found = self._resolve(request)
        return await found if inspect.isawaitable(found) else found


@dataclass(frozen=True, slots=True)
class Context:
    """One request. Everything that a route reads or changes goes through it."""

    guard: Guard
    principal: Principal
    request_id: str
    request: Request

    def may(self, permission: Permission) -> bool:
        return self.principal.may(permission)

    async def may_still(self, permission: Permission) -> bool:
        return await self.guard.admits_still(self.request, permission, self.principal)

    @property
    def actor(self) -> Actor:
        """The principal as the audit log names it."""
        return Actor(self.principal.name, self.principal.token, self.request_id)

    def produce(self, verb: str, name: str, tenant: TenantId) -> Production:
        """Begins the span of a request that makes jobs, in the trace that its W3C headers name.

        If the app does not trace, the jobs belong to that trace all the same.
        """
        headers = self.request.headers
        found = TraceContext.of_headers(headers.get("traceparent"), headers.get("tracestate"))
        parent = None if found is None else str(found)
        tracing = self.guard.backend.listeners.tracing
        return Untraced(parent) if tracing is None else tracing.produce(verb, name, tenant, parent)

    async def call(self, operation: Callable[[Catalog], Coroutine[Any, Any, T]]) -> T:
        return await self.guard.backend.call(operation)

    async def ask(self, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Calls an operation that needs no catalog."""
        return await self.guard.backend.call(lambda catalog: question(catalog.store))

    async def work(self, question: Callable[[RemoteWork], Coroutine[Any, Any, T]]) -> T:
        """Calls an operation of workers over HTTP, or of the upkeep for them."""
        listeners = self.guard.backend.listeners
        return await self.ask(lambda store: question(RemoteWork.of(store, listeners)))

    async def begin(self, operation: Callable[[Store], Coroutine[Any, Any, Operation]]) -> Operation:
        """Begins an operation, and lets this server run it: there may be no worker."""
        return await self._run(await self.ask(operation))

    async def look_at(self, operation: str, tenant: TenantId | None) -> Operation:
        """Returns an operation. One that is open is run here, unless another runner has it.

        Raises UnknownOperation, and InvalidInput for what is not an id.
        """
        return await self._run(await self.ask(lambda store: bulk.get(store, operation, tenant)))

    async def _run(self, operation: Operation) -> Operation:
        if not operation.state.ended:
            await self.work(RemoteWork.run_operations)
        return operation

    def tenant(self, named: TenantId | None) -> TenantId:
        """Returns the tenant that a request is about. Raises NoTenant, or NotPermitted for another tenant."""
        found = self.tenant_or_all(named)
        if found is None:
            raise NoTenant(
                "this request is about one tenant, and your token is for all of them. Nothing was done.",
                fix="Name it: ?tenant=acme",
            )
        return found

    def tenant_or_all(self, named: TenantId | None) -> TenantId | None:
        """Returns the tenant that a request is about; None for all. Raises NotPermitted for another tenant.

        The answer is the same whether the other tenant exists: nothing is looked up.
        """
        own = self.principal.tenant
        if own is not None and named not in (None, own):
            raise NotPermitted(
                "your token is bound to another tenant than the one that the request names. Nothing was done.",
                fix="Leave the tenant out.",
            )
        return own if own is not None else named

    def owner(self, named: TenantId | None, everyone: bool) -> Owner:
        """Returns the owner of the triggers that a request is about: a tenant, or ALL. Raises as `tenant` does."""
        return self._everyone(named) if everyone else self.tenant(named)

    def owner_or_all(self, named: TenantId | None, everyone: bool) -> Owner | None:
        """Returns the owner of the triggers that a request lists; None for the triggers of all owners."""
        return self._everyone(named) if everyone else self.tenant_or_all(named)

    def _everyone(self, named: TenantId | None) -> Owner:
        if self.principal.tenant is not None:
            raise NotPermitted(
                "your token is bound to a tenant, and triggers for all tenants need one of all. Nothing was done.",
                fix="Leave all_tenants out.",
            )
        if named is not None:
            raise InvalidInput(
                "tenant and all_tenants can't both say whose trigger is meant. Nothing was done.",
                fix="Leave one out.",
            )
        return ALL

    def repeatable_id(self, tenant: TenantId, verb: str, key: str | None) -> UUID | None:
        """Returns the id that the Idempotency-Key of a request stands for; a key that is a UUID is the id itself."""
        if key is None:
            return None
        if not _SANE_KEY.fullmatch(key):
            raise InvalidInput(
                "Idempotency-Key is not 1 to 200 printable characters of ASCII without spaces. Nothing was done.",
                fix="Send a UUID, made once for each intended call.",
            )
        try:
            return UUID(key)
        except ValueError:
            return uuid5(NAMESPACE_URL, f"leasehold:{verb}:{tenant}\n{key}")


def _context_of(request: Request) -> Any:
    return request.state.context


Asked = Annotated[Context, Depends(_context_of)]
"""The context of a request, for the parameter of a route."""

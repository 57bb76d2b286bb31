"""A page with its permission and its scope: visitor, rate, tenant and form are checked before it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from leasehold.api.context import Context, Guard, require_permission
from leasehold.api.own_site import SAFE_METHODS
from leasehold.api.route import body_within
from leasehold.console.health_strip import Line, strip_of
from leasehold.console.navigation import SECTIONS, Section
from leasehold.console.rendering import Renderer
from leasehold.console.segments import name_of, segment_of
from leasehold.console.visitors import Visitors
from leasehold.errors import LeaseholdError, NotAuthenticated, Unreachable
from leasehold.model.access import Permission, Principal
from leasehold.model.job import TenantId, tenant_id
from leasehold.store import Store

MOST_FIELDS = 200
LISTED_TENANTS = 50
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Awaitable[Response]])


def root_of(scope: Mapping[str, Any]) -> str:
    """Returns the path where the console is mounted, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


@dataclass(frozen=True, slots=True)
class Area:
    """The scope of a page: one tenant, or all of them for None. `base` is the path that its pages begin with."""

    tenant: TenantId | None
    base: str

    @staticmethod
    def of(root: str, tenant: TenantId | None) -> "Area":
        return Area(tenant, f"{root}/all" if tenant is None else f"{root}/t/{segment_of(tenant)}")


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a known visitor for a page."""

    context: Context
    request: Request
    renderer: Renderer
    visitors: Visitors
    area: Area
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def principal(self) -> Principal:
        return self.context.principal

    @property
    def root(self) -> str:
        return root_of(self.request.scope)

    def may(self, permission: Permission) -> bool:
        return self.context.may(permission)

    def may_all(self, permission: Permission) -> bool:
        """Returns whether the visitor has a permission for all tenants."""
        return self.principal.tenant is None and self.may(permission)

    def require(self, permission: Permission) -> None:
        """Raises NotPermitted without a permission that a page needs beside its own."""
        require_permission(self.principal, permission)

    @property
    def sections(self) -> list[Section]:
        of_all = self.principal.tenant is None
        return [each for each in SECTIONS if self.may(each.permission) and (of_all or not each.wide)]

    async def tenants(self) -> list[str]:
        """Returns tenants that the visitor can change to: some of them, if there are many."""
        if self.principal.tenant is not None or not self.may(Permission.TENANTS_READ):
            return []
        return list(await self.shared("tenants", lambda store: store.tenants(LISTED_TENANTS)))

    async def shared(self, key: Hashable, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Asks the store, at most every two seconds for all visitors. The key names the tenant, if it matters."""
        return await self.visitors.recent_values.get(key, lambda: self.context.ask(question))

    async def show(self, template: str, section: str, facts: Mapping[str, Any], *, status: int = 200) -> Response:
        """Renders a page within the frame."""
        frame = {
            "visit": self,
            "section": section,
            "tenants": await self.tenants(),
            "form_token": self.visitors.form_token(self.request),
            "strip": await self._strip(section),
            "flash": _FLASHES.get(self.request.query_params.get("done", "")),
            "undo": None,  # where a form brings back what the flash says is gone
        }
        response = self.renderer.answer(self.request, template, {**frame, **facts}, status=status)
        self.visitors.keep_form_token(self.request, response)
        return response

    async def _strip(self, section: str) -> Sequence[Line]:
        wide = self.may_all(Permission.WORKERS_READ)
        try:
            lines = await strip_of(self.shared, self.root, self.area.base, self.area.tenant, wide=wide)
        except LeaseholdError:  # a page must not fail for its strip
            return ()
        return [line for line in lines if line.section != section]  # that page says it itself

    def go(self, path: str, **query: str) -> Response:
        """Sends the browser to a page of this scope, after a change."""
        return RedirectResponse(self.area.base + path + (f"?{urlencode(query)}" if query else ""), 303)


_FLASHES = {
    "retry": "The job is queued again.",
    "run-now": "The job is due now.",
    "canceled": "The job is canceled.",
    "requested": "Its worker was asked to stop the job.",
    "enqueued": "This new job was enqueued with your changes.",
    "paused": "The tenant is paused: none of its jobs is started until it is resumed.",
    "resumed": "The tenant is resumed.",
    "limited": "The limit of the tenant is changed.",
    "duplicate": "Nothing was enqueued: this job holds the same dedupe key.",
    "trigger-saved": "The trigger is saved.",
    "trigger-pause": "The trigger is paused.",
    "trigger-resume": "The trigger is not paused any more. Fires that it has missed are caught up by its policy.",
    "trigger-enable": "The trigger is enabled.",
    "trigger-disable": "The trigger is disabled.",
    "trigger-delete": "The trigger is deleted. Jobs that it has made stay.",
    "trigger-restore": "The trigger is back as it was. A schedule begins at this moment.",
    "view-saved": "The view is saved. It stands under Views.",
    "view-deleted": "The view is deleted.",
    "definition-set": "The fields are set. New jobs get them; waiting jobs keep theirs.",
    "definition-reset": "The fields are those of the code again.",
}


@dataclass(frozen=True, slots=True)
class _PageRoute:
    method: str
    path: str
    permission: Permission
    handler: Callable[[Visit], Awaitable[Response]]
    prefixes: tuple[str, ...]


class Pages:
    """The pages of one topic. Each is served for one tenant, under /t/<tenant>, and for all of them, under /all."""

    def __init__(self) -> None:
        self._pages: list[_PageRoute] = []

    def add(self, method: str, path: str, permission: Permission, *, wide: bool = False) -> Callable[[F], F]:
        """Declares a page. The permission is that of its twin in the API; a `wide` one is about all tenants only."""

        def declare(handler: F) -> F:
            prefixes = ("/all",) if wide else ("/t/{tenant}", "/all")
            self._pages.append(_PageRoute(method, path, permission, handler, prefixes))
            return handler

        return declare

    def routes(self, guard: Guard, visitors: Visitors, renderer: Renderer) -> list[Route]:
        return [
            Route(prefix + each.path, _endpoint(each, guard, visitors, renderer), methods=[each.method])
            for each in self._pages
            for prefix in each.prefixes
        ]


def _endpoint(
    page: _PageRoute, guard: Guard, visitors: Visitors, renderer: Renderer
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            async with asyncio.timeout(guard.limits.seconds):
                principal = await visitors.principal(request)
                if principal is None:
                    return _ask_to_sign_in(request)
                guard.require(principal, page.permission)
                context = Context(guard, principal, request.state.request_id, request)
                form = {} if request.method in SAFE_METHODS else await read_form(request, guard)
                if request.method not in SAFE_METHODS:
                    visitors.require_own_form(request, form.get("form_token", ""))
                return await page.handler(
                    Visit(context, request, renderer, visitors, _area(request, principal), form)
                )
        except TimeoutError as error:
            raise Unreachable(
                f"the database did not answer within {guard.limits.seconds:g} s. It may have been done.",
                fix="Load the page again.",
            ) from error

    return answer


def _area(request: Request, principal: Principal) -> Area:
    """Returns the scope of a request. A tenant of others is not found, whether it exists or not."""
    segment = request.path_params.get("tenant")
    try:
        named = None if segment is None else tenant_id(name_of(segment))
    except LeaseholdError as error:
        raise HTTPException(404) from error
    if principal.tenant is not None and named != principal.tenant:
        raise HTTPException(404)
    return Area.of(root_of(request.scope), named)


def _ask_to_sign_in(request: Request) -> Response:
    if request.method not in SAFE_METHODS or request.headers.get("accept", "").startswith("application/json"):
        raise NotAuthenticated("your session has ended. Nothing was done.", fix="Sign in again, and repeat it.")
    root = root_of(request.scope)
    wanted = request.url.path.removeprefix(root) + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{root}/sign-in?{urlencode({'next': wanted})}", 303)


async def read_form(request: Request, guard: Guard) -> dict[str, str]:
    """Reads the fields of a form, within the limit of bodies."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(400)
    body = await body_within(request, guard.limits.body)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400) from error
    return dict(pairs)

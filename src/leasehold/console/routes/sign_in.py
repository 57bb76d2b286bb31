"""Sign in, sign out, the theme, and the way to the first page."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from leasehold.api.context import Guard
from leasehold.api.own_site import require_own_site
from leasehold.console.pages import Area, read_form, root_of
from leasehold.console.rendering import THEME, THEMES, Renderer
from leasehold.console.visitors import Visitors
from leasehold.errors import LeaseholdError, NotAuthenticated
from leasehold.model.job import tenant_id
from leasehold.operations import sessions
from leasehold.operations.statuses import statuses_of

A_YEAR = 366 * 86400


class SignIn:
    """Pages outside of any scope."""

    def routes(self, guard: Guard, visitors: Visitors, renderer: Renderer) -> list[Route]:
        door = _Door(guard, visitors, renderer)
        pages: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/", door.first_page),
            ("GET", "/go", door.change_scope),
            ("GET", "/sign-in", door.show),
            ("POST", "/sign-in", door.sign_in),
            ("POST", "/sign-out", door.sign_out),
            ("POST", "/theme", door.set_theme),
        ]
        return [Route(path, handler, methods=[method]) for method, path, handler in pages]


class _Door:
    def __init__(self, guard: Guard, visitors: Visitors, renderer: Renderer) -> None:
        self._guard = guard
        self._visitors = visitors
        self._renderer = renderer

    async def first_page(self, request: Request) -> Response:
        principal = await self._visitors.principal(request)
        if principal is None:
            return RedirectResponse(f"{root_of(request.scope)}/sign-in", 303)
        return RedirectResponse(f"{Area.of(root_of(request.scope), principal.tenant).base}/jobs", 303)

    async def change_scope(self, request: Request) -> Response:
        """Goes to the jobs of a tenant, or of all if none is named. The page there checks the visitor."""
        named = request.query_params.get("tenant", "").strip()
        area = Area.of(root_of(request.scope), tenant_id(named) if named else None)
        return RedirectResponse(f"{area.base}/jobs", 303)

    async def show(self, request: Request) -> Response:
        """Shows the form. A link is used by the form, not by looking at it: programs that preview links look, too."""
        return self._form(request, request.query_params.get("next", ""), request.query_params.get("link", ""))

    def _form(self, request: Request, wanted: str, link: str, problem: LeaseholdError | None = None) -> Response:
        status = 200 if problem is None else statuses_of(problem).http
        is_known = self._visitors.secret(request) is not None
        facts = {
            "wanted": wanted,
            "link": link,
            "problem": problem,
            "by_token": self._visitors.tokens,
            "is_known": is_known,
            # A page of others that leads here must not exchange the session of its reader.
            "by_itself": not is_known and request.headers.get("sec-fetch-site") == "none",
        }
        # The address may have a link. Without any referrer, browsers would send the form with `Origin: null`.
        headers = {"Referrer-Policy": "strict-origin"}
        return self._renderer.answer(request, "sign_in.html", facts, status=status, headers=headers)

    async def sign_in(self, request: Request) -> Response:
        require_own_site(request)
        form = await read_form(request, self._guard)
        token, link, wanted = (form.get(name, "").strip() for name in ("token", "link", "next"))
        place = root_of(request.scope) + _local(wanted)
        try:
            secret = await self._begin(token, link, request.state.request_id)
        except LeaseholdError as error:
            return self._form(request, wanted, "", error)
        response = RedirectResponse(place, 303)
        if before := self._visitors.secret(request):
            await self._end(before)
        self._visitors.drop(request, response)
        self._visitors.keep(request, response, secret)
        return response

    async def _begin(self, token: str, link: str, request_id: str) -> str:
        if not self._visitors.tokens:
            raise NotAuthenticated(
                "this console has no sign-in of its own. Nothing was done.", fix="Sign in to the application."
            )
        if link:
            return await self._visitors.backend.call(
                lambda catalog: sessions.redeem_link(catalog.store, link, request_id)
            )
        return await self._visitors.backend.call(lambda catalog: sessions.sign_in(catalog.store, token, request_id))

    async def sign_out(self, request: Request) -> Response:
        form = await read_form(request, self._guard)
        self._visitors.require_own_form(request, form.get("form_token", ""))
        if secret := self._visitors.secret(request):
            await self._end(secret)
        response = RedirectResponse(f"{root_of(request.scope)}/sign-in", 303)
        self._visitors.drop(request, response)
        return response

    async def _end(self, secret: str) -> None:
        await self._visitors.backend.call(lambda catalog: sessions.sign_out(catalog.store, secret))
        self._visitors.sessions.forget(secret)  # after it has ended: a request meanwhile would remember it

    async def set_theme(self, request: Request) -> Response:
        require_own_site(request)
        form = await read_form(request, self._guard)
        response = RedirectResponse(root_of(request.scope) + _local(form.get("next", "")), 303)
        if (theme := form.get("theme")) in THEMES:
            path = root_of(request.scope) or "/"
            response.set_cookie(THEME, str(theme), max_age=A_YEAR, path=path, samesite="lax", httponly=True)
        return response


def _local(wanted: str) -> str:
    """Returns a path of this console; its first page for an address of anywhere else."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return wanted if is_own and "\\" not in wanted and wanted.isprintable() else "/"

"""Finds out who a browser belongs to, by its session or by the resolver of the app, and where forms come from."""

import inspect
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from hmac import new as new_hmac

from starlette.requests import Request
from starlette.responses import Response

from leasehold.api import Backend, Resolve
from leasehold.api.own_site import OWN_SITE, SAFE_METHODS, require_own_site
from leasehold.console.recent_values import RecentValues
from leasehold.errors import NotPermitted
from leasehold.model.access import Principal
from leasehold.model.session import SESSION_LIFE, new_secret
from leasehold.operations.sessions import SessionCheck


class Visitors:
    """The people who use the console. A session is a cookie that no script can read, with a random secret."""

    def __init__(self, backend: Backend, resolve: Resolve | None, tokens: bool) -> None:
        self.backend = backend
        self.tokens = tokens
        self.sessions = SessionCheck()
        self.recent_values = RecentValues()
        self._resolve = resolve

    async def principal(self, request: Request) -> Principal | None:
        """Returns who sends a request; None if that is not known."""
        if self.tokens and (secret := request.cookies.get(_cookie(request, "session"))):
            known = self.sessions.known(secret)
            found = known or await self.backend.call(lambda catalog: self.sessions.read(catalog.store, secret))
            if found is not None:
                return found
        if self._resolve is None:
            return None
        resolved = self._resolve(request)
        return await resolved if inspect.isawaitable(resolved) else resolved

    async def principal_of_api_request(self, request: Request) -> Principal | None:
        """Returns who sends a request of the API without a token. A session only reads, for pages of this site."""
        if request.method in SAFE_METHODS and request.headers.get("sec-fetch-site", "same-origin") in OWN_SITE:
            return await self.principal(request)
        if self._resolve is None:
            return None
        resolved = self._resolve(request)
        return await resolved if inspect.isawaitable(resolved) else resolved

    # ------------------------------------------------------------------------------------------------- sessions

    def secret(self, request: Request) -> str | None:
        return request.cookies.get(_cookie(request, "session"))

    def keep(self, request: Request, response: Response, secret: str) -> None:
        _set(request, response, "session", secret, int(SESSION_LIFE.total_seconds()))

    def drop(self, request: Request, response: Response) -> None:
        for name in ("session", "form"):
            response.delete_cookie(_cookie(request, name), path=_path(request), secure=_is_https(request))

    # ----------------------------------------------------------------------------------------------------- forms

    def form_token(self, request: Request) -> str:
        """Returns the token that every form of this browser has. It is bound to the session."""
        secret = self.secret(request) or request.cookies.get(_cookie(request, "form"))
        if secret is None:
            secret = request.scope.setdefault("leasehold.form", new_secret())
        digest = new_hmac(secret.encode(), b"form", sha256).digest()
        return urlsafe_b64encode(digest).decode().rstrip("=")

    def keep_form_token(self, request: Request, response: Response) -> None:
        """Sets the cookie that the tokens of forms are bound to, without a session."""
        if (secret := request.scope.get("leasehold.form")) is not None:
            _set(request, response, "form", secret, int(SESSION_LIFE.total_seconds()))

    def require_own_form(self, request: Request, token: str) -> None:
        """Raises NotPermitted for a form that was not made for this browser."""
        require_own_site(request)
        if not compare_digest(token.encode(), self.form_token(request).encode()):
            raise NotPermitted(
                "this form is not of your session, or is older than it. Nothing was done.",
                fix="Go back, load the page again, and repeat it.",
            )


def _cookie(request: Request, name: str) -> str:
    """Returns the name of a cookie: with TLS one that only this host can set; else one for each port."""
    if _is_https(request):
        return f"__Host-leasehold-{name}" if _path(request) == "/" else f"__Secure-leasehold-{name}"
    return f"leasehold-{name}-{request.url.port or 80}"


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        _cookie(request, name),
        value,
        max_age=seconds,
        path=_path(request),
        secure=_is_https(request) or _comes_by_https(request),
        httponly=True,
        samesite="lax",
    )


def _path(request: Request) -> str:
    return str(request.scope.get("root_path") or "/")


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"


def _comes_by_https(request: Request) -> bool:
    """Returns whether the browser says that it uses TLS, though the proxy that ends it does not."""
    return request.headers.get("origin", "").startswith("https://")

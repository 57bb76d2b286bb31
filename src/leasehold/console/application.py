"""Makes the console: its pages, its files, and the HTTP API beside them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.api import ApiLimits, Backend, Resolve, make_api
from leasehold.api.context import REQUEST_ID, Guard, choose_request_id
from leasehold.api.problems import request_id
from leasehold.config import process_redactor
from leasehold.console.pages import root_of
from leasehold.console.rendering import Renderer
from leasehold.console.routes import TOPICS
from leasehold.console.static_files import StaticFiles
from leasehold.console.visitors import Visitors
from leasehold.errors import LeaseholdError, TooManyRequests
from leasehold.operations.statuses import statuses_of

log = logging.getLogger("leasehold.console")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TITLES = {
    400: "This request can't be read",
    401: "Sign in first",
    403: "This is not allowed",
    404: "Nothing is here",
    405: "This address has no such action",
    409: "This can't be done as it is",
    412: "It has changed meanwhile",
    413: "This is too large",
    422: "Something can't be used",
    429: "Too many requests",
    503: "The database does not answer",
}
_WORDS = {
    400: ("The form can't be read: it is not one of these pages, or was changed on its way.", "Load it again."),
    404: (
        "No page of the console has this address, or your account can't see it.",
        "Go back, or begin at the list of jobs.",
    ),
    405: ("This address is there, but not for this kind of request.", "Open it as a page, or use the form on it."),
}
API = "/api/"


class Console:
    """The pages, and the API under /api/. An ASGI app."""

    def __init__(self, pages: Starlette, api: FastAPI) -> None:
        self.pages = pages
        self.api = api
        self.state = api.state  # a server that stops finds the streams of the API here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and scope["path"].removeprefix(root_of(scope)).startswith(API)
        await (self.api if is_api else self.pages)(scope, receive, send)


def make_console(
    backend: Backend, resolve: Resolve | None = None, *, tokens: bool = True, limits: ApiLimits | None = None
) -> Console:
    """Makes the console of an app, with its API. Nothing is open by default: without `resolve`, people sign in with
    a token or a one-time link.
    """
    bounds = limits or ApiLimits()
    guard = Guard(backend, None, False, bounds)
    visitors = Visitors(backend, resolve, tokens)
    api = make_api(backend, visitors.principal_of_api_request, tokens=tokens, limits=bounds)
    files = StaticFiles()
    renderer = Renderer(files)
    routes = [route for topic in TOPICS for route in topic.routes(guard, visitors, renderer)]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with api.router.lifespan_context(api):
            yield

    pages = Starlette(
        routes=[Route("/static/{version}/{name}", files.answer), *routes],
        lifespan=lifespan,
        exception_handlers={
            LeaseholdError: lambda request, error: _refuse(renderer, request, error),
            HTTPException: lambda request, error: _answer_http(renderer, request, error),
            Exception: lambda request, error: _answer_bug(renderer, request, error),
        },
    )
    pages.router.redirect_slashes = False
    pages.add_middleware(_SafeAnswers)
    return Console(pages, api)


def _refuse(renderer: Renderer, request: Request, error: Exception) -> Response:
    if not isinstance(error, LeaseholdError):
        raise error
    status = statuses_of(error).http
    headers = {"Retry-After": str(max(1, round(error.retry_after)))} if isinstance(error, TooManyRequests) else {}
    text = process_redactor().text(error.happened)
    return _problem(renderer, request, status, text, error.fix, headers, error.code)


def _answer_http(renderer: Renderer, request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    text, fix = _WORDS.get(error.status_code, _WORDS[404])
    return _problem(renderer, request, error.status_code, text, fix, dict(error.headers or {}))


def _answer_bug(renderer: Renderer, request: Request, error: Exception) -> Response:
    log.error("request %s failed", request_id(request), exc_info=error)
    text = "The server failed; its log has the reason under this request id."
    response = _problem(renderer, request, 500, text, "Report it, with the request id.", {})
    response.headers.update(_SAFE)  # it is sent outside of all middleware
    return response


def _problem(
    renderer: Renderer,
    request: Request,
    status: int,
    text: str,
    fix: str,
    headers: dict[str, str],
    code: str | None = None,
) -> Response:
    title = _TITLES.get(status, "This did not work")
    facts = {"title": title, "text": text, "fix": fix, "code": code, "request_id": request_id(request)}
    return renderer.answer(request, "problem.html", facts, status=status, headers=headers)


class _SafeAnswers:
    """Gives each request an id, and each answer the headers that protect a browser."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity = choose_request_id(Headers(scope=scope).get(REQUEST_ID))
        scope["state"] = {**scope.get("state", {}), "request_id": identity}

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = identity
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely)

"""Makes the FastAPI app, and its OpenAPI document."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.api import problems
from leasehold.api.backend import Backend
from leasehold.api.context import REQUEST_ID, Guard, Resolve, choose_request_id
from leasehold.api.documents import ProblemDocument
from leasehold.api.limits import ApiLimits
from leasehold.api.route import PERMISSION, ApiRoute, Routes, RouteSpec, answer
from leasehold.api.routes import TOPICS, WHERE_HANDLERS_ARE
from leasehold.config import VERSION
from leasehold.errors import LeaseholdError
from leasehold.model.access import Permission
from leasehold.operations.remote_work import RemoteWork
from leasehold.runtime.closing import close_listeners
from leasehold.runtime.redacted_logs import redact_own_logs

DESCRIPTION = """Durable background jobs for multi-tenant apps.

Every request but those of health needs `Authorization: Bearer lh_…`. Errors are application/problem+json, with the
codes of the command line. Lists are read page by page, by `cursor`."""
_SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def make_api(
    backend: Backend, resolve: Resolve | None = None, *, tokens: bool = True, limits: ApiLimits | None = None
) -> FastAPI:
    """Makes the API of an app. Without `resolve`, only API tokens are accepted; nothing is open by default."""
    redact_own_logs()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with backend.use_here():
                try:
                    yield
                finally:
                    await backend.call(lambda catalog: RemoteWork.close_of(catalog.store))
        finally:
            await close_listeners(backend.listeners)

    api = FastAPI(
        title="Leasehold",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api.router.route_class = ApiRoute
    api.state.guard = Guard(backend, resolve, tokens, limits or ApiLimits())
    for topic in (*TOPICS, *(WHERE_HANDLERS_ARE if backend.tick is not None else ())):
        for spec in topic.specs:
            _add(api, topic, spec)
    _add_document(api)
    api.add_exception_handler(LeaseholdError, problems.answer_error)  # type: ignore[arg-type]
    api.add_exception_handler(RequestValidationError, problems.answer_invalid)  # type: ignore[arg-type]
    api.add_exception_handler(HTTPException, problems.answer_http)  # type: ignore[arg-type]
    api.add_exception_handler(Exception, problems.answer_bug)
    api.add_middleware(_RequestIds)
    return api


def _add(api: FastAPI, topic: Routes, spec: RouteSpec) -> None:
    statuses = [status for status in (spec.status, spec.also) if status is not None]
    summary, _, more = (spec.endpoint.__doc__ or "").partition("\n")
    api.router.add_api_route(
        spec.path,
        spec.endpoint,
        methods=[spec.method],
        status_code=spec.status,
        response_model=None,
        response_class=JSONResponse if spec.answer is not None else Response,
        responses={status: _described_answer(spec) for status in statuses},
        tags=[topic.tag],
        name=spec.endpoint.__name__,
        summary=summary,
        description=" ".join(more.split()) or None,
        operation_id=spec.endpoint.__name__,
        openapi_extra={PERMISSION: spec.permission.value, **({} if spec.timed else {"x-timed": False})},
    )


def _described_answer(spec: RouteSpec) -> dict[str, Any]:
    described: dict[str, Any] = {"description": "Done."}
    if spec.answer is not None:
        return described | {"model": spec.answer}
    schema = {"type": "object"} if spec.media == "application/json" else {"type": "string"}
    return described | ({"content": {spec.media: {"schema": schema}}} if spec.media is not None else {})


def _add_document(api: FastAPI) -> None:
    routes = Routes("health")

    @routes.add("GET", "/openapi.json", Permission.ANYONE, None, media="application/json")
    async def show_document(request: Request) -> Response:
        """Returns this document."""
        return answer(request.app.openapi())

    for spec in routes.specs:
        _add(api, routes, spec)
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_with_problems(get_openapi(title=api.title, version=api.version, routes=api.routes)))
        return made

    api.openapi = openapi  # type: ignore[method-assign]


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Describes what all routes have in common: errors as problems, and tokens."""
    document["info"]["description"] = DESCRIPTION
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path in document["paths"].values():
        for operation in path.values():
            _describe_errors(operation)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    return document


def _describe_errors(operation: dict[str, Any]) -> None:
    responses: Mapping[str, Any] = operation["responses"]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    expected = {"default": {"description": "A problem.", "content": problem}}
    operation["responses"] = {status: each for status, each in responses.items() if status != "422"} | expected
    operation.pop("x-timed", None)
    if operation[PERMISSION] != Permission.OPEN:
        operation["security"] = [{"token": []}]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a parameter: an address or a header can leave it out, and has no null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


class _RequestIds:
    """Gives each request an id, which its answer has, too; and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = choose_request_id(Headers(scope=scope).get(REQUEST_ID))
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_id)

"""A route with its permission: the sender, the rate and the body are checked before the route runs."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from leasehold.api.context import Guard
from leasehold.api.strict_json import read_json
from leasehold.errors import InvalidInput, MalformedRequest, RequestTooLarge, Unreachable
from leasehold.model.access import Permission
from leasehold.operations import views

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])
PERMISSION = "x-permission"


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route as its module declares it.

    answer  the model of its answer; None for an answer without one, of the type `media`
    also    a second status of the same answer
    timed   the time limit of requests applies to it
    """

    method: str
    path: str
    permission: Permission
    endpoint: Callable[..., Any]
    answer: type[BaseModel] | None
    status: int
    also: int | None
    media: str | None
    timed: bool


class Routes:
    """The routes of one topic, in the order in which they are looked at."""

    def __init__(self, tag: str, prefix: str = "/api/v1") -> None:
        self.tag = tag
        self.specs: list[RouteSpec] = []
        self._prefix = prefix

    def add(
        self,
        method: str,
        path: str,
        permission: Permission,
        answer: type[BaseModel] | None,
        *,
        status: int = 200,
        also: int | None = None,
        media: str | None = None,
        timed: bool = True,
    ) -> Callable[[F], F]:
        """Declares a route. Its docstring is its description in the OpenAPI document."""

        def declare(endpoint: F) -> F:
            self.specs.append(
                RouteSpec(method, self._prefix + path, permission, endpoint, answer, status, also, media, timed)
            )
            return endpoint

        return declare


class StrictRequest(Request):
    """A request whose body was read and parsed before, within its limits."""

    body_read: bytes = b""
    value_read: Any = None

    async def body(self) -> bytes:
        return self.body_read

    async def json(self) -> Any:
        return self.value_read


class ApiRoute(APIRoute):
    """Refuses to be made without a permission, so that no route is open by mistake."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        try:
            self.permission = Permission((self.openapi_extra or {})[PERMISSION])
        except (KeyError, ValueError) as error:
            raise InvalidInput(
                f"the route {path} has no permission. Nothing was started.",
                fix=f"Declare it by Routes.add(…), or with openapi_extra={{'{PERMISSION}': 'jobs:read'}}.",
            ) from error
        self._names = _query_names(self.dependant)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        run = super().get_route_handler()
        timed = bool((self.openapi_extra or {}).get("x-timed", True))

        async def handle(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            limit = guard.limits.seconds if timed else None
            try:
                async with asyncio.timeout(limit):
                    await guard.admit(request, self.permission)
                    self._require_known(request)
                    return await run(await self._read(request, guard))
            except TimeoutError as error:
                raise Unreachable(
                    f"the request took longer than {guard.limits.seconds:g} s. It may have been done.",
                    fix="Look, or send it again with its Idempotency-Key.",
                ) from error

        return handle

    def _require_known(self, request: Request) -> None:
        if unknown := sorted(request.query_params.keys() - self._names):
            known = f"It takes: {', '.join(sorted(self._names))}." if self._names else "It takes none."
            raise InvalidInput(f"{unknown[0]!r:.80} is not a parameter of this request. Nothing was done.", fix=known)

    def _most_bytes(self, guard: Guard) -> int:
        return guard.limits.work_body if self.permission is Permission.WORK else guard.limits.body

    async def _read(self, request: Request, guard: Guard) -> StrictRequest:
        strict = StrictRequest(request.scope, request.receive)
        strict.body_read = await body_within(request, self._most_bytes(guard))
        if strict.body_read:
            if self.body_field is None:
                raise InvalidInput("this request takes no body. Nothing was done.", fix="Send none.")
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise MalformedRequest(
                    "the body is not declared as JSON. Nothing was done.", fix="Send Content-Type: application/json."
                )
            strict.value_read = read_json(strict.body_read, guard.limits.depth)
        return strict


def _query_names(dependant: Dependant) -> set[str]:
    own = {each.alias for each in dependant.query_params}
    return own.union(*(_query_names(each) for each in dependant.dependencies))


async def body_within(request: Request, limit: int) -> bytes:
    """Reads a body, and stops at the limit, whatever Content-Length says."""
    declared = request.headers.get("content-length", "0")
    parts: list[bytes] = []
    size = int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 19 else 0
    if size <= limit:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                break
            parts.append(part)
    if size > limit:
        raise RequestTooLarge(
            f"the body has more than {limit:,} bytes. Nothing was done.", fix="Send less; keep large data elsewhere."
        )
    return b"".join(parts)


def answer(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(views.as_json(document), status, headers, "application/json")

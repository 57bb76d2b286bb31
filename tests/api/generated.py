"""Requests that are generated from the OpenAPI document, and a client that may send as many as it likes."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import httpx
from tests.api.conftest import Client, make_app

from leasehold.api import ApiLimits

PLACE = re.compile(r"\{(\w+)\}")


class Request(NamedTuple):
    """A request, and the position that has the value: the kind of position, and its name."""

    position: tuple[str, str]
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@asynccontextmanager
async def unhurried(url: str, schema: str | None = None) -> AsyncIterator[Client]:
    """A client whose requests are not counted, and whose streams end with what there is."""
    app = make_app(url, schema)
    much = ApiLimits(token_rate=1e6, token_burst=10**6, tenant_rate=1e6, tenant_burst=10**6, stream_seconds=0)
    api = app.api(limits=much)
    transport = httpx.ASGITransport(api)
    async with (
        app.open(),
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://api.test") as http,
    ):
        await app.store.sync_definitions(app.handlers.definitions)
        yield Client(app, api, http)


def requests_with(document: dict[str, Any], value: Any, place: str | None = None) -> Iterator[Request]:
    """Yields the requests of every operation with this value in one position after the other.

    While it is in the body, the path has `place`, or the value, too.
    """
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = _body(document, operation)
            plain = path.replace("{kind}", "tenant")
            elsewhere = PLACE.sub(lambda _: str(uuid4()), plain)
            filled = PLACE.sub(lambda _: quote(str(value), safe=""), plain)
            if filled != plain:
                yield Request(("path", PLACE.findall(plain)[-1]), method, filled, {}, body, {})
            for parameter in operation.get("parameters", ()):
                at, name = parameter["in"], parameter["name"]
                if at == "query":
                    yield Request((at, name), method, elsewhere, {name: str(value)}, body, {})
                elif at == "header" and str(value).isascii() and str(value).isprintable():
                    yield Request((at, name), method, elsewhere, {}, body, {name: str(value)})
            for name in body or ():
                beside = filled if place is None else PLACE.sub(place, plain)
                yield Request(("body", name), method, beside, {}, {**(body or {}), name: value}, {})


def _body(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for reference in (schema, *schema.get("anyOf", ())):
        if name := reference.get("$ref", "").rpartition("/")[2]:
            examples = document["components"]["schemas"][name].get("examples", [{}])
            return dict(examples[0])
    return None

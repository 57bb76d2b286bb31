"""Actions as commands and as requests of the API, to be copied."""

from collections.abc import Mapping
from shlex import quote
from typing import Any
from urllib.parse import quote as quote_path
from urllib.parse import urlencode

from leasehold.console.pages import Visit
from leasehold.model.job import TenantId
from leasehold.operations import views


def as_curl(
    visit: Visit,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    owner: TenantId | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Returns a request of the API. It names the tenant if the visitor's token is for all of them."""
    origin = f"{visit.request.url.scheme}://{visit.request.url.netloc}{visit.root}"
    whose = f"?{urlencode({'tenant': owner})}" if visit.principal.tenant is None and owner is not None else ""
    parts = [f'curl -X {method} {quote(f"{origin}/api/v1{path}{whose}")} -H "Authorization: Bearer $TOKEN"']
    parts += [f"-H {quote(f'{name}: {value}')}" for name, value in (headers or {}).items()]
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {quote(views.as_json(body).decode())}"]
    return " \\\n  ".join(parts)


def as_segment(text: str) -> str:
    return quote_path(text, safe="")


def as_command(*words: str, owner: TenantId | None = None) -> str:
    """Returns a command line of these words, quoted for a shell."""
    named = () if owner is None else ("--tenant", owner)
    return " ".join(["leasehold", *(quote(word) for word in (*words, *named))])

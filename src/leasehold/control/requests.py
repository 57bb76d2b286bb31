"""Requests of commands to a server: pages, parameters, and the fields that a token may not read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from leasehold.control.records import unreadable
from leasehold.engine import Parameters, ServerClient
from leasehold.errors import NoTenant
from leasehold.model.access import Permission

MOST_ON_A_PAGE = 200
_OF_PAYLOADS = ("payload", "result", "payload_template", "filter", "data")


def of_tenant(tenant: object) -> dict[str, str]:
    return {} if tenant is None else {"tenant": str(tenant)}


def path_of(topic: str, *names: str) -> str:
    """Returns the path of a thing and a verb; a name may have any character."""
    return "/".join([topic, *(quote(name, safe="") for name in names)])


class Answer(dict[str, Any]):
    """The document of an answer. A field that it has not is one that another release has renamed."""

    def __missing__(self, name: str) -> Any:
        raise unreadable(f"it has no field {name!r}")


class Requests:
    """Sends requests, and remembers which fields were hidden."""

    def __init__(self, client: ServerClient) -> None:
        self.client = client
        self.hidden: dict[str, Permission] = {}

    async def get(self, path: str, params: Parameters | None = None) -> Any:
        return await self._send("GET", path, None, params, None)

    async def post(
        self,
        path: str,
        document: Any,
        params: Parameters | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> Any:
        return await self._send(method, path, document, params, headers)

    async def _send(
        self, method: str, path: str, document: Any, params: Parameters | None, headers: Mapping[str, str] | None
    ) -> Any:
        try:
            answer = await self.client.send(method, path, document, params=params, headers=headers)
        except NoTenant as error:
            error.fix = "Name it: --tenant acme"
            raise
        if answer is not None and not isinstance(answer, dict):
            raise unreadable("it is not a JSON object")
        return Answer(answer or {})

    async def pages(
        self, path: str, name: str, params: Parameters, cursor: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Reads a list of up to `limit` documents, in as many requests as it takes, and the cursor after them."""
        found: list[dict[str, Any]] = []
        while True:
            wanted = {"limit": str(min(MOST_ON_A_PAGE, limit - len(found)))}
            place = {} if cursor is None else {"cursor": cursor}
            page = await self.get(path, {**params, **wanted, **place})
            found += page[name]
            cursor = page["next"]
            if cursor is None or len(found) >= limit:
                return found, cursor

    def note_hidden(self, document: Mapping[str, Any]) -> None:
        for name in document.get("hidden", ()):
            self.hidden[name] = Permission.PAYLOADS_READ if name in _OF_PAYLOADS else Permission.LOGS_READ


@dataclass(frozen=True, slots=True)
class Topic:
    requests: Requests

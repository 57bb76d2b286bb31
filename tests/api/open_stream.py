"""A stream of the API that is read while it is open; httpx returns an answer without a socket only at its end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.api.conftest import ACME, Client

from leasehold.model.access import Role
from leasehold.model.job import TenantId

PATIENCE = 30


class OpenStream:
    """The client's side of one request. `read` can be cleared: the client then takes nothing more."""

    def __init__(self) -> None:
        self.status = 0
        self.text = ""
        self.read = asyncio.Event()
        self.read.set()
        self.running: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._came = asyncio.Event()
        self._told = 0

    async def send(self, message: Any) -> None:
        await self.read.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.text += message.get("body", b"").decode()
        self._came.set()

    async def receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def hang_up(self) -> None:
        self._gone.set()

    async def until(self, part: str) -> None:
        """Waits until this has come."""
        async with asyncio.timeout(PATIENCE):
            while part not in self.text:
                self._came.clear()
                await self._came.wait()

    async def next(self, kind: str) -> dict[str, Any]:
        """Returns the data of the next event of this kind."""
        async with asyncio.timeout(PATIENCE):
            while (found := self.text.find(f"event: {kind}\n", self._told)) < 0 or "\n\n" not in self.text[found:]:
                self._came.clear()
                await self._came.wait()
        self._told = self.text.index("\n\n", found)
        data = self.text[found : self._told].partition("data: ")[2]
        return dict(json.loads(data))

    async def until_end(self) -> None:
        assert self.running is not None
        async with asyncio.timeout(PATIENCE):
            await self.running


@asynccontextmanager
async def opened(
    client: Client,
    path: str = "/stream",
    *,
    role: Role = Role.VIEWER,
    tenant: TenantId | None = ACME,
    token: str | None = None,
    query: str = "",
) -> AsyncIterator[OpenStream]:
    stream, sent = OpenStream(), token or await client.token(role, tenant)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": f"/api/v1{path}",
        "raw_path": f"/api/v1{path}".encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(b"host", b"api.test"), (b"authorization", f"Bearer {sent}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("api.test", 80),
    }
    requested = False

    async def receive() -> Any:
        nonlocal requested
        if not requested:
            requested = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return await stream.receive()

    stream.running = asyncio.create_task(client.api(scope, receive, stream.send))
    try:
        yield stream
    finally:
        stream.read.set()
        stream.hang_up()
        await stream.until_end()

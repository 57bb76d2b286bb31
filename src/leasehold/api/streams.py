"""Server-sent events: what every stream keeps to.

A stream ends when its client has gone or reads too slowly, when its sender may not read any more, after
`ApiLimits.stream_seconds`, and when the server stops. The client connects again.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import Response
from starlette.types import Receive, Scope, Send

from leasehold.api.context import Context
from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError
from leasehold.model.access import Permission
from leasehold.operations import views
from leasehold.runtime.supervise import wait_for_first

MEDIA_TYPE = "text/event-stream"
BETWEEN_PINGS = 15.0
BETWEEN_CHECKS = 2.0
# The signal handler of a host's server is looked at so often.
BETWEEN_GLANCES = 0.5
# A client that takes none of a stream for so long is dropped.
LONGEST_SEND = 10.0
LONGEST_END = 1.0
# How long a browser waits before it connects again.
RETRY = 2000


class EventStream(Response):
    """Sends the events of a source, which is ended with the stream."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        context: Context,
        permission: Permission,
        tenant: str | None,
        source: Callable[[], AsyncGenerator[bytes, None]],
    ) -> None:
        """Raises TooManyRequests."""
        super().__init__(None, 200, {"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._context = context
        self._permission = permission
        self._tenant = tenant
        self._source = source
        self._sending = asyncio.Lock()
        self._sent_at = 0.0
        self._is_stuck = False
        context.guard.streams.require_room(tenant)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard = self._context.guard
        ends = guard.streams.enter(self._tenant)
        self._sent_at = asyncio.get_running_loop().time()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            writing = asyncio.ensure_future(self._write(send))
            await wait_for_first(
                *(writing, _until_gone(receive), self._until_refused(), self._ping(send)),
                *(ends.wait(), _until_host_stops(), asyncio.sleep(guard.limits.stream_seconds)),
            )
            if not writing.cancelled():
                writing.result()
            await self._send(send, b"", more=False)
        except _StuckClient:
            return
        finally:
            guard.streams.leave(self._tenant, ends)

    async def _write(self, send: Send) -> None:
        await self._send(send, f"retry: {RETRY}\n\n".encode())
        source = self._source()
        try:
            async for event in source:
                await self._send(send, event)
        except LeaseholdError as error:
            detail = process_redactor().text(error.happened)
            await self._send(send, event_of("problem", {"code": error.code, "detail": detail}))
        finally:
            await source.aclose()

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with self._sending:
            if self._is_stuck:
                raise _StuckClient
            try:
                async with asyncio.timeout(LONGEST_SEND if more else LONGEST_END):
                    await send({"type": "http.response.body", "body": body, "more_body": more})
            except TimeoutError as error:
                self._is_stuck = True
                raise _StuckClient from error
            self._sent_at = asyncio.get_running_loop().time()

    async def _ping(self, send: Send) -> None:
        """Sends comments while there is nothing else, so that proxies leave the connection open."""
        loop = asyncio.get_running_loop()
        while True:
            wait = self._sent_at + BETWEEN_PINGS - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            else:
                await self._send(send, b": ping\n\n")

    async def _until_refused(self) -> None:
        """Returns when the sender may not read this any more, a few seconds after that."""
        while True:
            await asyncio.sleep(BETWEEN_CHECKS)
            if not await self._context.may_still(self._permission):
                return


class _StuckClient(Exception):
    """The client takes nothing. Its connection is closed without an end."""


def event_of(kind: str, document: dict[str, Any], cursor: str | None = None) -> bytes:
    identity = f"id: {cursor}\n" if cursor else ""
    return f"event: {kind}\n{identity}data: ".encode() + views.as_json(document) + b"\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _until_host_stops() -> None:
    """Returns when the uvicorn of a host app stops, of which it tells no app: it would wait for this stream.

    Our own server calls `Streams.end_all`.
    """
    while True:
        await asyncio.sleep(BETWEEN_GLANCES)
        if getattr(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), "should_exit", False):
            return

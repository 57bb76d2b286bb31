"""The one way to DynamoDB: every request passes `Client.call`.

The SDK's own retries are off. A request that got no reply may have been done, and its repetition then fails on its
own condition: only the layer that retries can know that. It says so by `ConditionFailed.in_doubt`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from random import random
from time import monotonic
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import ClientError

from leasehold.config import VERSION
from leasehold.engines.dynamodb import errors
from leasehold.engines.dynamodb.urls import TableAddress
from leasehold.errors import Unreachable

Answer = Mapping[str, Any]
Send = Callable[[str, Mapping[str, Any]], Awaitable[Answer]]
Intercept = Callable[[Send, str, Mapping[str, Any]], Awaitable[Answer]]
"""Stands between client and network: calls `send(operation, parameters)`, before or after a fault of its own."""

REQUEST_TIMEOUT = 30.0
CONNECT_TIMEOUT, READ_TIMEOUT = 3.0, 10.0
CONNECTIONS = 64
FIRST_PAUSE, LONGEST_PAUSE = 0.025, 2.0
# The SDK makes one of sixteen parts for each request, which takes a fifth of the request's processor time.
USER_AGENT = f"leasehold/{VERSION}"
# How often a request is sent to an endpoint that refuses connections. Workers handle longer outages themselves.
TRIES_UNREACHED = 3


class Client:
    """A client for one table. Opens nothing until the first request. `timeout` limits a request with its retries."""

    def __init__(
        self, address: TableAddress, *, timeout: float = REQUEST_TIMEOUT, intercept: Intercept | None = None
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._intercept = intercept
        self._open: AsyncExitStack | None = None
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def call(self, operation: str, **parameters: Any) -> Answer:
        """Sends a request until it is answered. Raises ConditionFailed, or errors in our words."""
        until, pause, tries, in_doubt = monotonic() + self._timeout, FIRST_PAUSE, 0, False
        while True:
            tries += 1
            try:
                return await self._send_once(operation, parameters)
            except ClientError as error:
                if (failed := errors.failed_condition(error, in_doubt=in_doubt)) is not None:
                    raise failed from error
                if not errors.is_throttle(error) and not errors.is_failure(error):
                    raise self._told(error) from error
                in_doubt |= errors.is_failure(error)
                last: Exception = error
            except errors.NOT_SENT as error:
                in_doubt, last = True, error  # a connection that is reset later looks the same
                if tries >= TRIES_UNREACHED:
                    raise self._told(error) from error
            except errors.LOST_REPLY as error:
                in_doubt, last = True, error
            except Exception as error:
                raise self._told(error) from error
            wait = pause * (0.5 + random())
            if monotonic() + wait > until:
                raise self._told(last) from last
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _send_once(self, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if self._intercept is not None:
            return await self._intercept(self._send, operation, parameters)
        return await self._send(operation, parameters)

    async def _send(self, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if self._client is None:
            await self._connect()
        answer: Answer = await self._client._make_api_call(operation, dict(parameters))
        return answer

    async def _connect(self) -> None:
        async with self._opening:
            if self._closed:
                raise Unreachable("the store was closed. Nothing was asked of DynamoDB.", fix="Open another.")
            if self._client is not None:
                return
            stack = AsyncExitStack()
            config = AioConfig(
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                max_pool_connections=CONNECTIONS,
                retries={"total_max_attempts": 1},
                parameter_validation=False,
                user_agent=USER_AGENT,
            )
            self._client = await stack.enter_async_context(
                _session_for(self.address).create_client(
                    "dynamodb",
                    region_name=self.address.region,
                    endpoint_url=self.address.endpoint,
                    config=config,
                    **_local_options(self.address),
                )
            )
            self._open = stack

    def _told(self, error: Exception) -> Exception:
        return errors.in_our_words(error, self.address.table) or error

    async def close(self) -> None:
        self._closed = True
        async with self._opening:
            stack, self._open, self._client = self._open, None, None
            if stack is not None:
                await stack.aclose()


@cache
def _local_session() -> AioSession:
    return get_session()


def _session_for(address: TableAddress) -> AioSession:
    """Returns a session: one for all clients of emulators, since making one takes 85 ms of reading.

    A session of a real account has locks of its own event loop, for the renewal of credentials.
    """
    return _local_session() if _local_options(address) else get_session()


def _local_options(address: TableAddress) -> dict[str, Any]:
    """Returns options for an emulator on this machine; none for another endpoint.

    The credentials are invented: an emulator accepts any and must get no real ones. Plain HTTP has no certificate to
    verify, and the SDK would read all authorities for each client, which takes longer than the first ten requests.
    """
    if address.endpoint is None or not any(host in address.endpoint for host in ("//127.0.0.1", "//localhost")):
        return {}
    plain = {"verify": False} if address.endpoint.startswith("http://") else {}
    return {"aws_access_key_id": "leasehold", "aws_secret_access_key": "leasehold", **plain}

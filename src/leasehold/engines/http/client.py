"""Sends requests to a server, and turns its problems into the errors that a local store raises."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import orjson

from leasehold.config import VERSION, api_token
from leasehold.engine import Parameters
from leasehold.engines.http.urls import Address, read_url
from leasehold.errors import (
    InvalidInput,
    LeaseholdError,
    NotAuthenticated,
    NotPermitted,
    SchemaMismatch,
    TooManyRequests,
    Unreachable,
)

REQUEST_TIMEOUT = 30.0
CONNECT_TIMEOUT = 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
_BY_STATUS: Mapping[int, type[LeaseholdError]] = {401: NotAuthenticated, 403: NotPermitted, 429: TooManyRequests}
_CODE = re.compile(r"LH-\d{4}")


class HttpClient:
    """The connections of one store. Each store has its own, so that heartbeats wait for no other request."""

    def __init__(
        self,
        address: Address,
        token: Callable[[], str],
        timeout: float = REQUEST_TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = address
        self._read_token = token
        self._token = token()
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=address.api,
            headers={"User-Agent": f"leasehold/{VERSION}"},
            transport=transport,
            verify=True if address.is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, path: str, document: Any, **options: Any) -> Any:
        return await self.send("POST", path, document, **options)

    async def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        params: Parameters | None = None,
    ) -> Any:
        """Sends a request and returns the JSON of its answer. A request that was refused as one too many is repeated.

        Raises Unreachable if no answer comes in time, or the server fails; NotAuthenticated, NotPermitted.
        """
        limit = timeout or self._timeout
        until = monotonic() + limit
        while True:
            try:
                return await self._send_once(method, path, document, limit, headers or {}, params)
            except TooManyRequests as error:
                pause = min(max(error.retry_after, SHORTEST_PAUSE), LONGEST_PAUSE)
                if monotonic() + pause > until:
                    raise self._unreachable(str(error.happened), too_slow=True) from error
                await asyncio.sleep(pause)
            except NotAuthenticated:
                if not self._has_new_token():
                    raise

    async def _send_once(
        self,
        method: str,
        path: str,
        document: Any,
        limit: float,
        headers: Mapping[str, str],
        params: Parameters | None,
    ) -> Any:
        body = None if document is None else orjson.dumps(document)
        sent = {**headers, **self._authorization}
        if body is not None:
            sent["Content-Type"] = "application/json"
        times = httpx.Timeout(limit, connect=min(limit, CONNECT_TIMEOUT))
        try:
            async with asyncio.timeout(limit + 1):
                answer = await self._http.request(
                    method, path, content=body, headers=sent, params=params, timeout=times
                )
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise self._unreachable(f"{type(error).__name__}: {error!s:.200}") from error
        except TimeoutError as error:
            raise self._unreachable(f"there was no answer for {limit:g} s", too_slow=True) from error
        if answer.is_success:
            return self._read(answer)
        raise self._error_of(answer)

    async def stream(self, path: str) -> AsyncGenerator[Any, None]:
        """Yields the documents of an answer in JSON lines, as they come. Raises Unreachable if it ends too early."""
        rest = b""
        try:
            async with self._http.stream("GET", path, headers=self._authorization, timeout=self._timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise self._error_of(answer)
                async for part in answer.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield orjson.loads(line)
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise self._unreachable(f"{type(error).__name__}: {error!s:.200}") from error
        if rest:
            raise self._unreachable("the answer ended within a line")

    @property
    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _read(self, answer: httpx.Response) -> Any:
        try:
            return orjson.loads(answer.content) if answer.content else None
        except ValueError as error:
            raise self._unreachable("the answer is not JSON, so it is not from a server of Leasehold") from error

    def _error_of(self, answer: httpx.Response) -> LeaseholdError:
        """Returns the error that a local store would have raised; Unreachable for a proxy's or a server's failure."""
        try:
            problem = orjson.loads(answer.content)
            code, happened, fix = (str(problem[name]) for name in ("code", "detail", "fix"))
        except (ValueError, KeyError, TypeError):
            code, happened, fix = "", f"it answered {answer.status_code}", ""
        kind = _BY_CODE.get(code) or _BY_STATUS.get(answer.status_code)
        if kind is None and _CODE.fullmatch(code) and answer.status_code < 500:
            kind = InvalidInput
        if kind is None or (kind is Unreachable and not code):
            return self._unreachable(happened)
        error = kind(happened, fix=fix or _fix_of(kind), code=code or kind.code)
        if isinstance(error, TooManyRequests):
            error.retry_after = _seconds(answer.headers.get("retry-after"))
        return error

    def _unreachable(self, why: str, *, too_slow: bool = False) -> Unreachable:
        error = Unreachable(
            f"the server {self._address.url} can't be reached: {why}.", fix="Check that it runs: leasehold serve"
        )
        error.too_slow = too_slow
        return error

    def _has_new_token(self) -> bool:
        """Reads the token again: it may have been rotated since this process began."""
        before, self._token = self._token, self._read_token()
        return self._token != before


def make_client(url: str, token_file: Path | None, plain_http: bool) -> HttpClient:
    """Makes the client of a server; sends nothing. Raises InvalidInput for a URL or a token that can't be used."""
    return HttpClient(read_url(url, plain_http=plain_http), partial(api_token, token_file))


def _classes(kind: type[LeaseholdError]) -> Iterator[type[LeaseholdError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _classes(each)


_BY_CODE = {each.code: each for each in _classes(LeaseholdError) if "code" in each.__dict__}
_BY_CODE |= {f"LH-200{number}": SchemaMismatch for number in range(5)} | {"LH-3005": Unreachable}


def _fix_of(kind: type[LeaseholdError]) -> str:
    if kind is NotAuthenticated:
        return "Set LEASEHOLD_TOKEN to a valid token: leasehold token create … --role worker"
    return "Look into the server's log."


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isascii() and text.isdigit() else 1.0

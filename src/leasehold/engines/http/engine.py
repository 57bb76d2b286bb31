"""HttpEngine: one server of the HTTP API, named by its URL, for workers with a token."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn, cast

import httpx

from leasehold.config import api_token
from leasehold.engine import DEFAULT_SCHEMA, Finding, Login, SchemaStatus, Severity
from leasehold.engines.http.client import REQUEST_TIMEOUT, HttpClient
from leasehold.engines.http.refusals import needs_database, no_caller_transaction
from leasehold.engines.http.store import HttpStore, abilities_of
from leasehold.engines.http.urls import read_url
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch
from leasehold.store import Store

PROTOCOL = 1
"""The version of the requests. The server names the oldest and the newest that it understands."""


class HttpEngine:
    """The engine of one server. The token is never part of the URL: LEASEHOLD_TOKEN has it, or a file."""

    abilities = abilities_of(None)

    def __init__(self, url: str, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None) -> None:
        self._address = read_url(url)
        if schema != DEFAULT_SCHEMA:
            raise InvalidInput(
                f"the schema {schema!r:.80} was asked for, and the server has its own. Nothing was opened.",
                fix="Leave --schema and LEASEHOLD_SCHEMA out.",
            )
        self.schema = schema
        self.transport: httpx.AsyncBaseTransport | None = None

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def address(self) -> str:
        return self._address.url

    def url_of(self, database: str, login: Login | None = None) -> NoReturn:
        raise needs_database("url_of(…)")

    async def open(self, *, statement_timeout: timedelta | None = None) -> Store:
        limit = REQUEST_TIMEOUT if statement_timeout is None else statement_timeout.total_seconds()
        client = HttpClient(self._address, api_token, limit, self.transport)
        try:
            hello = await self._hello(client)
        except BaseException:
            await client.close()
            raise
        return cast(Store, HttpStore(client, hello))

    async def _hello(self, client: HttpClient) -> dict[str, Any]:
        """Asks what the server understands, and what the token is for. Raises SchemaMismatch, NotAuthenticated."""
        hello: dict[str, Any] = await client.send("GET", "/worker")
        if not isinstance(hello, dict) or not hello.get("oldest", 1) <= PROTOCOL <= hello.get("protocol", 0):
            raise SchemaMismatch(
                f"the server {self.address} does not understand this worker. Nothing was changed.",
                fix="Use the same release of leasehold on both sides.",
                code="LH-2002",
            )
        return hello

    async def schema_status(self) -> SchemaStatus:
        """Asks the server once: so a wrong URL or token is known before anything starts."""
        await (await self.open()).close()
        return SchemaStatus(self.schema, PROTOCOL, PROTOCOL, PROTOCOL)

    async def prepare(self, tell: Callable[[str], None] = lambda _text: None) -> Sequence[str]:
        raise needs_database("leasehold migrate")

    async def examine(self) -> AsyncIterator[Finding]:
        try:
            await self.schema_status()
            yield Finding("server", Severity.OK, f"{self.address} answers, and the token is valid")
        except LeaseholdError as error:
            yield Finding("server", Severity.PROBLEM, error.happened, error.code, error.fix)

    def join(self, connection: object) -> NoReturn:
        raise no_caller_transaction()

    def scripts(self) -> NoReturn:
        raise needs_database("a script of SQL")

    def test_kit(self) -> NoReturn:
        raise needs_database("a test")

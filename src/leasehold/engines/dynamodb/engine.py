"""DynamoEngine: one table, named by a URL."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import NoReturn

from leasehold.engine import DEFAULT_SCHEMA, Finding, Login, SchemaStatus
from leasehold.engines.dynamodb import doctor, schema
from leasehold.engines.dynamodb.client import REQUEST_TIMEOUT, Client, Intercept
from leasehold.engines.dynamodb.clock import Clock, SystemClock, TableClock
from leasehold.engines.dynamodb.refusals import no_caller_transaction, no_schema, no_sql
from leasehold.engines.dynamodb.store import DynamoStore
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.engines.dynamodb.urls import read_url


class DynamoEngine:
    """The engine of one table. `clock` and `intercept` are those of the stores that it opens.

    `clock` is None for the clock of this machine; a table that was made for tests has one of its own.
    """

    abilities = DynamoStore.abilities

    def __init__(self, url: str, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None) -> None:
        self._address = read_url(url)
        if schema not in (DEFAULT_SCHEMA, self._address.table):
            raise no_schema(schema)
        self.schema = self._address.table
        self.clock: Clock | None = None
        self.intercept: Intercept | None = None

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def address(self) -> str:
        return self._address.url

    def url_of(self, database: str, login: Login | None = None) -> str:
        return self._address.of(database).url

    async def open(self, *, statement_timeout: timedelta | None = None) -> DynamoStore:
        limit = REQUEST_TIMEOUT if statement_timeout is None else statement_timeout.total_seconds()
        client = Client(self._address, timeout=limit, intercept=self.intercept)
        try:
            meta = await schema.read_meta(client)
            schema.status_of(self._address.table, meta).require_usable()
            assert meta is not None
            table = Table(client, meta["shards"])
            clock = self.clock or (TableClock(table) if meta.get("test_clock") else SystemClock())
            return DynamoStore(table, clock)
        except BaseException:
            await client.close()
            raise

    async def schema_status(self) -> SchemaStatus:
        client = Client(self._address, intercept=self.intercept)
        try:
            return schema.status_of(self._address.table, await schema.read_meta(client))
        finally:
            await client.close()

    async def prepare(self, tell: Callable[[str], None] = lambda _text: None) -> Sequence[str]:
        client = Client(self._address, intercept=self.intercept)
        try:
            return [schema.TITLE] if await schema.create(client) else []
        finally:
            await client.close()

    def examine(self) -> AsyncIterator[Finding]:
        return doctor.examine(self._address, self.open)

    def join(self, connection: object) -> NoReturn:
        raise no_caller_transaction()

    def scripts(self) -> NoReturn:
        raise no_sql()

    def test_kit(self) -> DynamoTestKit:
        return DynamoTestKit(self._address, self._open_for_tests)

    async def _open_for_tests(self, clock: Clock, intercept: Intercept) -> DynamoStore:
        engine = DynamoEngine(self.url)
        engine.clock, engine.intercept = clock, intercept
        return await engine.open()

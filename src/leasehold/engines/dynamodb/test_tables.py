"""Tables for tests: one for each test, with a clock that can be moved."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from leasehold.engines.dynamodb import schema
from leasehold.engines.dynamodb.client import Client
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.urls import TableAddress, read_url
from leasehold.engines.dynamodb.wire import Item, item_from_wire


async def nothing_more(url: str) -> None:
    """Adds nothing: a table has only items of Leasehold."""


@dataclass(frozen=True)
class TestTables:
    """Tables on one endpoint. `run` tells them from those of other runs there.

    The emulator makes a table within milliseconds, and reads all items of a table for each query of an index: a small
    table for each test is the fastest way. AWS makes one within some ten seconds.
    """

    __test__ = False

    address: TableAddress
    run: str
    url_of: Callable[[str], str] | None = None
    _template: list[Item] = field(default_factory=list)

    def url_for(self, name: str) -> str:
        return self.url_of(name) if self.url_of else self.address.of(name).url

    async def make_template(self, more: Callable[[str], Awaitable[None]] = nothing_more) -> None:
        """Remembers the items that `more` writes into a table: each further table begins with them."""
        if more is nothing_more or self._template:
            return
        name = await self.clone()
        try:
            await more(self.url_for(name))
            async with self._client(name) as client:
                self._template.extend(await _items(client))
        finally:
            await self.drop(name)

    async def drop_template(self) -> None:
        self._template.clear()

    async def clone(self) -> str:
        """Makes a table and returns its name."""
        name = f"leasehold-test-{self.run}-{uuid4().hex[:12]}"
        async with self._client(name) as client:
            await schema.create(client, {"test_clock": True})
            if self._template:
                await Table(client, 1).put_many(self._template)
        return name

    async def drop(self, name: str, patience: timedelta = timedelta()) -> list[str]:
        """Deletes a table. A client that still uses it matters to no other one: the answer is always empty."""
        async with self._client(name) as client:
            await client.call("DeleteTable", TableName=name)
        return []

    @asynccontextmanager
    async def _client(self, name: str) -> AsyncIterator[Client]:
        client = Client(read_url(self.url_for(name)))
        try:
            yield client
        finally:
            await client.close()


async def _items(client: Client) -> list[Item]:
    """Returns all items of a small table."""
    answer = await client.call("Scan", TableName=client.address.table, ConsistentRead=True)
    assert "LastEvaluatedKey" not in answer, "a template has at most 1 MB"
    return [item_from_wire(item) for item in answer["Items"]]

"""Tables in an emulator on this machine, one for each test that asks, over one plain connection.

A client of the SDK lives no longer than its event loop, which is the test's, and takes milliseconds to be made.
"""

import http.client
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from leasehold.engines.dynamodb.test_kit import TestClock
from leasehold.engines.dynamodb.test_tables import TestTables, nothing_more
from leasehold.engines.dynamodb.urls import TableAddress, read_url
from leasehold.engines.dynamodb.wire import Item, item_to_wire

WireItem = Mapping[str, Any]

_emulators: set[str | None] = set()


class EmulatorLink:
    """A connection that is opened when it is first needed, and again when the emulator has closed it."""

    def __init__(self, endpoint: str, region: str | None) -> None:
        address = urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        scope = f"leasehold/20000101/{region}/dynamodb/aws4_request"
        self._headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none",
        }

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Sends a request, at most twice: each of those that are sent here may be repeated."""
        try:
            return self._send(operation, parameters)
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            return self._send(operation, parameters)

    def _send(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        headers = {**self._headers, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        self._connection.request("POST", "/", json.dumps(parameters), headers)
        with self._connection.getresponse() as response:
            answer: dict[str, Any] = json.loads(response.read())
        assert response.status == 200, answer
        return answer

    def scan(self, table: str) -> list[WireItem]:
        """Returns all items of a table."""
        items: list[WireItem] = []
        after: dict[str, Any] = {}
        while True:
            answer = self.call("Scan", TableName=table, ConsistentRead=True, **after)
            items += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return items
            after = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def note_emulator(url: str) -> None:
    """Notes an emulator that the tests have started: only of these it is known what they can do."""
    _emulators.add(read_url(url).endpoint)


def is_emulated(address: TableAddress) -> bool:
    return address.endpoint is not None and address.endpoint in _emulators


@cache
def link_to(endpoint: str, region: str | None) -> EmulatorLink:
    """Returns the link of this process: its tests run one after the other, each on a loop of its own."""
    return EmulatorLink(endpoint, region)


def link_of(address: TableAddress) -> EmulatorLink:
    assert address.endpoint is not None
    return link_to(address.endpoint, address.region)


@dataclass(frozen=True)
class EmulatedTables(TestTables):
    """The first table is made as users make theirs; each further one is restored from its backup, by one request."""

    _backups: list[str] = field(default_factory=list)

    async def make_template(self, more: Callable[[str], Awaitable[None]] = nothing_more) -> None:
        await super().make_template(more)
        self._backups.clear()

    async def clone(self) -> str:
        link = link_of(self.address)
        if self._backups:
            name = f"leasehold-test-{self.run}-{uuid4().hex[:12]}"
            link.call("RestoreTableFromBackup", TargetTableName=name, BackupArn=self._backups[0])
            return name
        original = await super().clone()  # it stays: the emulator reads the keys of a restored table from it
        backup = link.call("CreateBackup", TableName=original, BackupName=original)
        self._backups.append(backup["BackupDetails"]["BackupArn"])
        return await self.clone()

    async def drop(self, name: str, patience: timedelta = timedelta()) -> list[str]:
        link_of(self.address).call("DeleteTable", TableName=name)
        return []


class LinkedClock(TestClock):
    """Writes the moment into the table over the link. A client for each move would take 5 ms to be made."""

    async def _put(self, item: Item) -> None:
        link_of(self._address).call("PutItem", TableName=self._address.table, Item=item_to_wire(item))


def clock_at(url: str) -> LinkedClock:
    return LinkedClock(read_url(url))


def tables_at(url: str) -> TestTables:
    """Returns tables of the emulator of this machine, or of another DynamoDB."""
    address = read_url(url)
    return (EmulatedTables if is_emulated(address) else TestTables)(address, uuid4().hex[:8])

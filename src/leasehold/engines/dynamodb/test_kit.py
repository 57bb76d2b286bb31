"""Services for tests on DynamoDB: tables, a clock, stores that follow it, crashes, and a count of requests."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from botocore.exceptions import ConnectionClosedError

from leasehold.engines.dynamodb.client import Answer, Client, Intercept, Send
from leasehold.engines.dynamodb.clock import TEST_CLOCK, Clock
from leasehold.engines.dynamodb.keys import timestamp
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.test_tables import TestTables
from leasehold.engines.dynamodb.urls import TableAddress
from leasehold.engines.dynamodb.wire import Item
from leasehold.store import Store


class OpenStore(Protocol):
    def __call__(self, clock: Clock, intercept: Intercept) -> Awaitable[Store]: ...


@dataclass
class MovedClock:
    """The clock of a test's table in this process. Its stores need no request to read it."""

    offset: timedelta = timedelta()
    frozen_at: datetime | None = None

    async def now(self) -> datetime:
        return datetime.now(UTC) + self.offset if self.frozen_at is None else self.frozen_at


_clocks: dict[str, MovedClock] = {}


def clock_of(address: TableAddress) -> MovedClock:
    """Returns the clock of a table, the same for all kits of this process."""
    return _clocks.setdefault(address.url, MovedClock())


class DynamoTestKit:
    def __init__(self, address: TableAddress, open_store: OpenStore) -> None:
        self._address = address
        self._open_store = open_store
        self._sent: list[str] = []
        self._crashes = 0

    def databases(self, run: str, url_of: Callable[[str], str] | None = None) -> TestTables:
        return TestTables(self._address, run, url_of)

    def clock(self) -> "TestClock":
        return TestClock(self._address)

    async def open(self) -> Store:
        return await self.open_with(_send_it)

    async def open_with(self, intercept: Intercept) -> Store:
        """Opens a store whose requests pass `intercept`, for faults."""
        crashes = self._crashes

        async def counted(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
            nonlocal crashes
            self._sent.append(operation)
            answer = await intercept(send, operation, parameters)
            if crashes != self._crashes:
                crashes = self._crashes
                raise ConnectionClosedError(endpoint_url=self._address.endpoint or "")
            return answer

        return await self._open_store(clock_of(self._address), counted)

    async def crash(self) -> None:
        """Loses the reply to one request of each open store, as a connection does that breaks."""
        self._crashes += 1

    def statements(self) -> Sequence[str]:
        return tuple(self._sent)

    async def is_stuck(self) -> bool:
        """Returns False: no request waits for a lock."""
        return False


async def _send_it(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
    return await send(operation, parameters)


class TestClock:
    """Moves the clock of a test's table: in this process at once, and in the table for all others."""

    __test__ = False

    def __init__(self, address: TableAddress) -> None:
        self._address = address
        self._clock = clock_of(address)

    async def now(self) -> datetime:
        return await self._clock.now()

    async def move(self, by: timedelta) -> None:
        if self._clock.frozen_at is None:
            self._clock.offset += by
        else:
            self._clock.frozen_at += by
        await self._write()

    async def freeze(self, at: datetime | None) -> None:
        self._clock.offset, self._clock.frozen_at = timedelta(), at
        await self._write()

    async def _write(self) -> None:
        pk, sk = TEST_CLOCK
        offset, frozen_at = self._clock.offset // timedelta(microseconds=1), self._clock.frozen_at
        await self._put({"PK": pk, "SK": sk, "offset": offset, "frozen_at": frozen_at and timestamp(frozen_at)})

    async def _put(self, item: Item) -> None:
        client = Client(self._address)
        try:
            await Table(client, 1).put(item)
        finally:
            await client.close()

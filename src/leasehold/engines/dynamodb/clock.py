"""The clock of the engine. DynamoDB has none, so the clocks of workers decide, with an allowance for their skew."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from leasehold.engines.dynamodb.keys import Key, read_timestamp
from leasehold.engines.dynamodb.table import Table

TEST_CLOCK: Key = ("meta", "clock")
"""The clock of a table that was made for tests: an offset, or the moment at which it stands still."""


class Clock(Protocol):
    async def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine, in UTC."""

    async def now(self) -> datetime:
        return datetime.now(UTC)


class TableClock:
    """The clock of a test table. All processes that use the table read it there, so that a test can move it."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def now(self) -> datetime:
        item = await self._table.get(TEST_CLOCK) or {}
        if "frozen_at" in item:
            return read_timestamp(item["frozen_at"])
        return datetime.now(UTC) + timedelta(microseconds=item.get("offset", 0))

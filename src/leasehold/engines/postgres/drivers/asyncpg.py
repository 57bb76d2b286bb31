"""Connections of asyncpg, and of its pools."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.connections import close_connection
from leasehold.engines.postgres.drivers.base import AsyncDriver, Caller
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class AsyncpgCaller(Caller):
    description = "an asyncpg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return not self._passed.is_in_transaction()

    async def _afetch(self, call: CallerStatement) -> Sequence[Row]:
        rows: Sequence[Row] = await self._passed.fetch(call.text, *call.arguments)
        return rows


class AsyncpgDriver(AsyncDriver):
    def __init__(self, connection: "Connection | None") -> None:
        super().__init__(connection)
        self._transaction: Any = None

    async def begin(self) -> None:
        if self.connection.is_in_transaction():
            raise InvalidInput(
                "job.transaction() got an asyncpg connection that is in a transaction, which the code that "
                "began it would end. Nothing was written.",
                fix="Hand it over before you begin one: job.transaction() does.",
            )
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def ask(self, statement: str, value: str | None) -> str | None:
        answer: str | None = await self.connection.fetchval(statement, *(() if value is None else (value,)))
        return answer

    async def commit(self) -> None:
        await self._transaction.commit()
        await self.close()

    async def rollback(self) -> None:
        try:
            if self.connection.is_in_transaction():
                await self._transaction.rollback()
            await self.close()
        except asyncpg.InterfaceError:  # it broke, and a pool has taken it back; or a statement is still under way
            self.abandon()

    def abandon(self) -> None:
        if self.connection is not None:
            with suppress(asyncpg.InterfaceError):
                self.connection.terminate()

    async def close(self) -> None:
        await close_connection(self.connection)

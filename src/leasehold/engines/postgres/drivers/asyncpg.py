"""Connections of asyncpg, and of its pools."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from leasehold.engines.postgres.database import closed
from leasehold.engines.postgres.drivers.base import Caller, TransactionDriver
from leasehold.engines.postgres.request import Request, Row
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class AsyncpgCaller(Caller):
    described = "an asyncpg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return not self._passed.is_in_transaction()

    async def _afetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = await self._passed.fetch(request.text, *request.arguments)
        return rows


class AsyncpgTransaction(TransactionDriver):
    blocking = False

    def __init__(self, connection: "Connection | None") -> None:
        self.connection = connection
        self._transaction: Any = None

    async def begin(self) -> None:
        if self.connection.is_in_transaction():
            raise InvalidInput(
                "job.transaction() got an asyncpg connection that is in a transaction, which whoever began it would "
                "end. Nothing was written.",
                fix="Hand it over before you begin one: job.transaction() does.",
            )
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def ask(self, statement: str, value: str | None) -> Any:
        return await self.connection.fetchval(statement, *(() if value is None else (value,)))

    async def commit(self) -> None:
        await self._transaction.commit()
        await self._close()

    async def rollback(self) -> None:
        with suppress(asyncpg.InterfaceError):  # it broke, and a pool has taken it back already
            if self.connection.is_in_transaction():
                await self._transaction.rollback()
            await self._close()

    def abandon(self) -> None:
        if self.connection is not None:
            with suppress(asyncpg.InterfaceError):
                self.connection.terminate()

    async def _close(self) -> None:
        await closed(self.connection)

"""Connections of psycopg 3, blocking and awaited."""

import sys
from collections.abc import Sequence
from typing import Any

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.drivers.base import AsyncDriver, BlockingDriver, Caller, parameters_of


class PsycopgCaller(Caller):
    description = "a psycopg connection"
    blocking = True
    begin = "with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed)

    def _fetch(self, call: CallerStatement) -> Sequence[Row]:
        """Uses a cursor of our own: the caller's may send other placeholders, and make other objects of rows."""
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            rows: Sequence[Row] = cursor.execute(call.text_with_percent, call.arguments).fetchall()
        return rows


class AsyncPsycopgCaller(Caller):
    description = "an async psycopg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed)

    async def _afetch(self, call: CallerStatement) -> Sequence[Row]:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(call.text_with_percent, call.arguments)
            rows: Sequence[Row] = await cursor.fetchall()
        return rows


def _commits_at_once(connection: Any) -> bool:
    idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
    return bool(connection.autocommit and connection.info.transaction_status == idle)


class PsycopgDriver(BlockingDriver):
    def ask(self, statement: str, value: str | None) -> str | None:
        cursor = self.connection.cursor(row_factory=_tuple_row())
        answer: str | None = cursor.execute(_with_name(statement), parameters_of(value) or None).fetchone()[0]
        return answer

    def close(self) -> None:
        pool = getattr(self.connection, "_pool", None)
        if pool is None:
            self.connection.close()
        else:
            pool.putconn(self.connection)


class AsyncPsycopgDriver(AsyncDriver):
    async def ask(self, statement: str, value: str | None) -> str | None:
        cursor = self.connection.cursor(row_factory=_tuple_row())
        await cursor.execute(_with_name(statement), parameters_of(value) or None)
        answer: str | None = (await cursor.fetchone())[0]
        return answer

    async def close(self) -> None:
        pool = getattr(self.connection, "_pool", None)
        await (self.connection.close() if pool is None else pool.putconn(self.connection))


def _tuple_row() -> Any:
    """Returns the factory of plain rows: the handler's own may make other objects of them."""
    return sys.modules["psycopg"].rows.tuple_row


def _with_name(statement: str) -> str:
    return statement.replace("$1", "%(value)s::text")

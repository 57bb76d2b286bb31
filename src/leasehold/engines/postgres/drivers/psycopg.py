"""Connections of psycopg 3, blocking and awaited."""

import sys
from collections.abc import Sequence
from typing import Any

from leasehold.engines.postgres.drivers.base import Caller, TransactionDriver, named, then
from leasehold.engines.postgres.request import Request, Row


class PsycopgCaller(Caller):
    described = "a psycopg connection"
    blocking = True
    begin = "with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed)

    def _fetch(self, request: Request) -> Sequence[Row]:
        """A cursor of our own: the caller's may send other placeholders, and make something else of rows."""
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            rows: Sequence[Row] = cursor.execute(request.text_with_percent, request.arguments).fetchall()
        return rows


class AsyncPsycopgCaller(Caller):
    described = "an async psycopg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed)

    async def _afetch(self, request: Request) -> Sequence[Row]:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(request.text_with_percent, request.arguments)
            rows: Sequence[Row] = await cursor.fetchall()
        return rows


def _commits_at_once(connection: Any) -> bool:
    idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
    return bool(connection.autocommit and connection.info.transaction_status == idle)


class PsycopgTransaction(TransactionDriver):
    def ask(self, statement: str, value: str | None) -> Any:
        from psycopg.rows import tuple_row

        cursor = self.connection.cursor(row_factory=tuple_row)  # whatever rows the handler is used to
        asked = cursor.execute(statement.replace("$1", "%(value)s::text"), named(value) or None)
        return then(asked, lambda _: then(cursor.fetchone(), lambda row: row[0]))

    def _close(self) -> Any:
        pool = getattr(self.connection, "_pool", None)
        return self.connection.close() if pool is None else pool.putconn(self.connection)

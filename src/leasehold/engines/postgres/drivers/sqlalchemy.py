"""Connections and sessions of SQLAlchemy, blocking and awaited, scoped ones too."""

import sys
from collections.abc import Sequence
from typing import Any

from leasehold.engines.postgres.drivers.base import Caller, TransactionDriver, named, not_postgres, then
from leasehold.engines.postgres.request import Request, Row
from leasehold.errors import InvalidInput


class ConnectionCaller(Caller):
    described = "a SQLAlchemy connection"
    blocking = True
    begin = "with connection.begin(): …"

    def _connection(self) -> Any:
        return self._passed

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._connection())

    def _fetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = self._connection().execute(_text(request), request.named).all()
        return rows


class SessionCaller(ConnectionCaller):
    """`connection()` joins the session's transaction, and begins it where it had not begun. It flushes nothing."""

    described = "a SQLAlchemy session"
    begin = "with session.begin(): …"

    def _connection(self) -> Any:
        return self._passed.connection()


class AsyncConnectionCaller(Caller):
    described = "an async SQLAlchemy connection"
    blocking = False
    begin = "async with connection.begin(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed.sync_connection)

    async def _connection(self) -> Any:
        return self._passed

    async def _afetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = (await (await self._connection()).execute(_text(request), request.named)).all()
        return rows


class AsyncSessionCaller(AsyncConnectionCaller):
    described = "an async SQLAlchemy session"
    begin = "async with session.begin(): …"

    async def acommits_at_once(self) -> bool:
        return _commits_at_once((await self._connection()).sync_connection)

    async def _connection(self) -> Any:
        return await self._passed.connection()


def _text(request: Request) -> Any:
    return sys.modules["sqlalchemy"].text(request.text_with_names)


def _commits_at_once(connection: Any) -> bool:
    if connection.dialect.name != "postgresql":
        raise not_postgres(f"a SQLAlchemy connection to {connection.dialect.name}")
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


class SqlAlchemyTransaction(TransactionDriver):
    """Sessions and connections of both kinds. What was added to a session is written before the claim is ended."""

    def begin(self) -> None:
        session = getattr(self.connection, "sync_session", self.connection)
        begun = session.get_transaction()
        if begun is not None and getattr(getattr(begun, "origin", None), "name", None) == "BEGIN":
            raise InvalidInput(
                "job.transaction() got a session that is within its own begin(), which would commit too early. "
                "Nothing was written.",
                fix="Hand the session over as it is: job.transaction() begins, and the worker commits.",
            )

    def flush(self) -> Any:
        flush = getattr(self.connection, "flush", None)
        return flush() if flush is not None else None

    def ask(self, statement: str, value: str | None) -> Any:
        from sqlalchemy import text

        asked = self.connection.execute(text(statement.replace("$1", ":value")), named(value))
        return then(asked, lambda answer: answer.scalar_one())


def session_of(given: object) -> object:
    """Behind SQLAlchemy's scoped ones, the session of this thread or task: the worker ends it wherever it runs."""
    registry = getattr(given, "registry", None)
    return registry() if callable(registry) else given

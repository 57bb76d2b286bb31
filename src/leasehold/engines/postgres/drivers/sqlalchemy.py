"""Connections and sessions of SQLAlchemy, blocking and awaited, scoped ones too."""

import sys
from collections.abc import Sequence
from typing import Any

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.drivers.base import AsyncDriver, BlockingDriver, Caller, not_postgres, parameters_of
from leasehold.errors import InvalidInput


class ConnectionCaller(Caller):
    description = "a SQLAlchemy connection"
    blocking = True
    begin = "with connection.begin(): …"

    def _connection(self) -> Any:
        return self._passed

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._connection())

    def _fetch(self, call: CallerStatement) -> Sequence[Row]:
        rows: Sequence[Row] = self._connection().execute(_text(call), call.named).all()
        return rows


class SessionCaller(ConnectionCaller):
    """A session: `connection()` joins its transaction, and begins it where it had not begun. It flushes nothing."""

    description = "a SQLAlchemy session"
    begin = "with session.begin(): …"

    def _connection(self) -> Any:
        return self._passed.connection()


class AsyncConnectionCaller(Caller):
    description = "an async SQLAlchemy connection"
    blocking = False
    begin = "async with connection.begin(): …"

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._passed.sync_connection)

    async def _connection(self) -> Any:
        return self._passed

    async def _afetch(self, call: CallerStatement) -> Sequence[Row]:
        rows: Sequence[Row] = (await (await self._connection()).execute(_text(call), call.named)).all()
        return rows


class AsyncSessionCaller(AsyncConnectionCaller):
    description = "an async SQLAlchemy session"
    begin = "async with session.begin(): …"

    async def acommits_at_once(self) -> bool:
        return _commits_at_once((await self._connection()).sync_connection)

    async def _connection(self) -> Any:
        return await self._passed.connection()


def _text(call: CallerStatement) -> Any:
    return sys.modules["sqlalchemy"].text(call.text_with_names)


def _commits_at_once(connection: Any) -> bool:
    if connection.dialect.name != "postgresql":
        raise not_postgres(f"a SQLAlchemy connection to {connection.dialect.name}")
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


class SqlAlchemyDriver(BlockingDriver):
    """A session or connection. Objects that were added to a session are written before the claim is ended."""

    def begin(self) -> None:
        _require_no_begin(self.connection)

    def flush(self) -> None:
        if (flush := getattr(self.connection, "flush", None)) is not None:
            flush()

    def ask(self, statement: str, value: str | None) -> str | None:
        answer: str | None = self.connection.execute(_with_name(statement), parameters_of(value)).scalar_one()
        return answer


class AsyncSqlAlchemyDriver(AsyncDriver):
    """An async session or connection, likewise."""

    async def begin(self) -> None:
        _require_no_begin(getattr(self.connection, "sync_session", self.connection))

    async def flush(self) -> None:
        if (flush := getattr(self.connection, "flush", None)) is not None:
            await flush()

    async def ask(self, statement: str, value: str | None) -> str | None:
        answer: str | None = (await self.connection.execute(_with_name(statement), parameters_of(value))).scalar_one()
        return answer


def _require_no_begin(session: Any) -> None:
    begun = session.get_transaction()
    if begun is not None and getattr(getattr(begun, "origin", None), "name", None) == "BEGIN":
        raise InvalidInput(
            "job.transaction() got a session that is within its own begin(), which would commit too early. "
            "Nothing was written.",
            fix="Hand the session over as it is: job.transaction() begins, and the worker commits.",
        )


def _with_name(statement: str) -> Any:
    return sys.modules["sqlalchemy"].text(statement.replace("$1", ":value"))


def session_of(given: object) -> object:
    """Returns the session of this thread or task behind a scoped one: the worker ends it wherever it runs."""
    registry = getattr(given, "registry", None)
    return registry() if callable(registry) else given

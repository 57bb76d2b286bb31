"""Transactions that handlers write in, and the worker ends: on a connection of ours, or on whatever a handler brings.

Of a blocking library nothing is awaited: each verb here answers at once, or with something to await, as the library
does. So it is written once for both.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from leasehold.engines.postgres.database import Database, closed
from leasehold.errors import InvalidInput
from leasehold.model.job import Claim
from leasehold.model.status import Status
from leasehold.store import FinishAnswer

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    from leasehold.engines.postgres.database import Connection

POOL_SIZE = 100
IDLE = 60.0


def transaction_of(database: Database, lent: "Lent", claim: Claim, given: object | None) -> "HandlersTransaction":
    library = _library(given)
    if given is None:
        return HandlersTransaction(database, claim, _Ours(lent))
    if isinstance(given, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        return HandlersTransaction(database, claim, _Asyncpg(given))
    if library in _BROUGHT and callable(getattr(given, "execute", None)):
        return HandlersTransaction(database, claim, _BROUGHT[library](_session_of(given)), given)
    raise InvalidInput(
        f"job.transaction() got {type(given).__module__}.{type(given).__name__}, in which nothing can be written "
        "here. Nothing was begun.",
        fix="Hand over a SQLAlchemy session or connection, or one of asyncpg or psycopg.",
    )


class HandlersTransaction:
    """`begin`, then `finish` and `commit`, or `rollback`. Whichever comes last also gives the connection back."""

    def __init__(self, database: Database, claim: Claim, driver: "_Driver", given: object | None = None) -> None:
        self._database = database
        self._given = given
        self._claim = claim
        self._driver = driver
        self._mark = f"{claim.worker}/{claim.job}/{claim.attempt}"
        self.blocking = driver.blocking

    @property
    def connection(self) -> Any:
        return self._driver.connection if self._given is None else self._given

    def begin(self) -> Any:
        return _then(self._driver.begin(), lambda _: self._marked())

    def finish(self, result: str | None) -> Any:
        asked = self._driver.flush()
        return _then(asked, lambda _: _then(self._ask("finish", self._verdict(result)), FinishAnswer))

    def commit(self) -> Any:
        return self._driver.commit()

    def rollback(self) -> Any:
        return self._driver.rollback()

    def abandon(self) -> None:
        self._driver.abandon()

    def _marked(self) -> Any:
        """Where each statement commits by itself the mark is gone at once: then so would be every promise."""
        asked = self._ask("mark", self._mark)
        return _then(asked, lambda _: _then(self._ask("marked", None), self._require_mark))

    def _require_mark(self, mark: str | None) -> None:
        if mark != self._mark:
            raise InvalidInput(
                "job.transaction() got a connection in autocommit: each statement is a transaction of its own there. "
                "Nothing was written.",
                fix="Hand one over that is not in autocommit.",
            )

    def _ask(self, name: str, value: str | None) -> Any:
        return self._driver.ask(self._database.statement(f"effects/{name}").text, value)

    def _verdict(self, result: str | None) -> str:
        claim = self._claim
        keep = claim.definition.retention.keep(Status.SUCCEEDED)
        verdict: dict[str, Any] = {
            "mark": self._mark,
            "tenant": claim.tenant,
            "job": claim.job,
            "attempt": claim.attempt,
            "worker": claim.worker,
            "keep": None if keep is None else keep.total_seconds(),
        }
        if result is not None:
            verdict["result"] = orjson.Fragment(result)
        return orjson.dumps(verdict).decode()


def _then(asked: Any, go_on: Callable[[Any], Any]) -> Any:
    """Goes on with the answer: now, or once it was awaited."""
    return _later(asked, go_on) if isawaitable(asked) else go_on(asked)


async def _later(asked: Awaitable[Any], go_on: Callable[[Any], Any]) -> Any:
    next_ = go_on(await asked)
    return await next_ if isawaitable(next_) else next_


class Lent:
    """Connections of ours for handlers: nothing is set on them, and what a handler sets is reset before the next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    async def acquire(self) -> "PoolConnectionProxy[asyncpg.Record]":
        with self._database.translated():
            async with self._opening:
                if self._pool is None:
                    self._pool = await self._database.make_pool(
                        max_size=POOL_SIZE, max_inactive_connection_lifetime=IDLE
                    )
            return await self._pool.acquire()

    async def release(self, connection: "PoolConnectionProxy[asyncpg.Record]") -> None:
        pool = self._pool
        if pool is not None:
            await pool.release(connection)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await self._database.close_pool(pool)


class _Driver:
    """How one library is spoken to."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.blocking = not iscoroutinefunction(getattr(type(connection), "commit", None))

    def begin(self) -> Any:
        return None

    def flush(self) -> Any:
        return None

    def ask(self, statement: str, value: str | None) -> Any:
        raise NotImplementedError

    def commit(self) -> Any:
        return _then(self.connection.commit(), lambda _: self._close())

    def rollback(self) -> Any:
        return _then(self.connection.rollback(), lambda _: self._close())

    def abandon(self) -> None:
        """Without a word to a server that may never answer; where a library can't, its own timeouts have to do."""

    def _close(self) -> Any:
        return self.connection.close()


class _Asyncpg(_Driver):
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


class _Ours(_Asyncpg):
    def __init__(self, lent: Lent) -> None:
        super().__init__(None)
        self._lent = lent

    async def begin(self) -> None:
        self.connection = await self._lent.acquire()
        await super().begin()

    async def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            await self._lent.release(connection)


class _SqlAlchemy(_Driver):
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

        asked = self.connection.execute(text(statement.replace("$1", ":value")), _named(value))
        return _then(asked, lambda answer: answer.scalar_one())


class _Psycopg(_Driver):
    def ask(self, statement: str, value: str | None) -> Any:
        from psycopg.rows import tuple_row

        cursor = self.connection.cursor(row_factory=tuple_row)  # whatever rows the handler is used to
        asked = cursor.execute(statement.replace("$1", "%(value)s::text"), _named(value) or None)
        return _then(asked, lambda _: _then(cursor.fetchone(), lambda row: row[0]))

    def _close(self) -> Any:
        pool = getattr(self.connection, "_pool", None)
        return self.connection.close() if pool is None else pool.putconn(self.connection)


def _named(value: str | None) -> dict[str, str]:
    return {} if value is None else {"value": value}


_BROUGHT: dict[str, type[_Driver]] = {"sqlalchemy": _SqlAlchemy, "psycopg": _Psycopg}


def _session_of(given: object) -> object:
    """Behind SQLAlchemy's scoped ones, the session of this thread or task: the worker ends it wherever it runs."""
    registry = getattr(given, "registry", None)
    return registry() if callable(registry) else given


def _library(given: object) -> str:
    """Which one it is of, by its own class or one that it is made from: none is imported for a question."""
    roots = (kind.__module__.partition(".")[0] for kind in type(given).__mro__)
    return next((root for root in roots if root in _BROUGHT), "")

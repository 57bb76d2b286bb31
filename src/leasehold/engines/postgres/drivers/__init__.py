"""Connections and sessions of other libraries, by the package and the name of their class or of one of its bases."""

from collections.abc import Mapping
from inspect import iscoroutinefunction

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

from leasehold.engines.postgres.drivers import django, psycopg, sqlalchemy
from leasehold.engines.postgres.drivers.asyncpg import AsyncpgCaller, AsyncpgDriver
from leasehold.engines.postgres.drivers.base import AsyncDriver, BlockingDriver, Caller
from leasehold.errors import InvalidInput

_CALLERS: Mapping[tuple[str, str], type[Caller]] = {
    ("asyncpg", "Connection"): AsyncpgCaller,
    ("asyncpg", "PoolConnectionProxy"): AsyncpgCaller,
    ("psycopg", "Connection"): psycopg.PsycopgCaller,
    ("psycopg", "AsyncConnection"): psycopg.AsyncPsycopgCaller,
    ("sqlalchemy", "Connection"): sqlalchemy.ConnectionCaller,
    ("sqlalchemy", "Session"): sqlalchemy.SessionCaller,
    ("sqlalchemy", "scoped_session"): sqlalchemy.SessionCaller,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.AsyncConnectionCaller,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.AsyncSessionCaller,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.AsyncSessionCaller,
    ("django", "BaseDatabaseWrapper"): django.DjangoCaller,
    ("django", "ConnectionProxy"): django.DjangoCaller,
}
_DRIVERS: Mapping[str, tuple[type[BlockingDriver], type[AsyncDriver]]] = {
    "sqlalchemy": (sqlalchemy.SqlAlchemyDriver, sqlalchemy.AsyncSqlAlchemyDriver),
    "psycopg": (psycopg.PsycopgDriver, psycopg.AsyncPsycopgDriver),
}


def join(passed: object) -> Caller:
    """Wraps a caller's connection or session, to enqueue within its transaction."""
    for kind in type(passed).__mro__:
        if known := _CALLERS.get((_package(kind), kind.__name__)):
            return known(passed)
    raise InvalidInput(
        f"within(…) got {type(passed).__module__}.{type(passed).__qualname__}, which holds no transaction that "
        "Leasehold could join. Nothing was enqueued.",
        fix="Pass the connection or session that you write with: of asyncpg, psycopg, SQLAlchemy or Django.",
    )


def transaction_driver(given: object) -> BlockingDriver | AsyncDriver:
    """Wraps a connection or session that a handler writes with, and the worker ends."""
    if isinstance(given, Connection | PoolConnectionProxy):
        return AsyncpgDriver(given)
    library = next((package for kind in type(given).__mro__ if (package := _package(kind)) in _DRIVERS), None)
    if library is not None and callable(getattr(given, "execute", None)):
        connection = sqlalchemy.session_of(given)
        blocking, awaited = _DRIVERS[library]
        is_awaited = iscoroutinefunction(getattr(type(connection), "commit", None))
        return awaited(connection) if is_awaited else blocking(connection)
    raise InvalidInput(
        f"job.transaction() got {type(given).__module__}.{type(given).__name__}, in which nothing can be written "
        "here. Nothing was begun.",
        fix="Hand over a SQLAlchemy session or connection, or one of asyncpg or psycopg.",
    )


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]

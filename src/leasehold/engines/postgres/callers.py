"""The one place that takes a caller's own connection, and uses it in the caller's own thread or on its own loop.

What was passed is known by its type's name and module: no library is imported here that the caller has not imported.
Each kind knows three things: whether it blocks, whether a transaction is open, and how one statement is sent.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from leasehold.engines.postgres.request import Request, Row
from leasehold.errors import InvalidInput, SchemaMismatch, TransactionConflict
from leasehold.model.job import Placed
from leasehold.store import Prepared


def caller(passed: object) -> "Caller":
    for kind in type(passed).__mro__:
        if known := _KINDS.get((kind.__module__.partition(".")[0], kind.__name__)):
            return known(passed)
    raise InvalidInput(
        f"within(…) got {type(passed).__module__}.{type(passed).__qualname__}, which holds no transaction that "
        "Leasehold could join. Nothing was enqueued.",
        fix="Pass the connection or session that you write with: of asyncpg, psycopg, SQLAlchemy or Django.",
    )


class Caller:
    """A connection or session that is not ours. It is never committed, rolled back or closed here."""

    described: ClassVar[str]
    blocking: ClassVar[bool]
    begin: ClassVar[str]
    """How its users say that a transaction begins."""

    def __init__(self, passed: Any) -> None:
        self._passed = passed

    def commits_at_once(self) -> bool:
        """No transaction is open and none will begin by itself: each statement is one of its own."""
        raise NotImplementedError

    async def acommits_at_once(self) -> bool:
        return self.commits_at_once()

    def place(self, prepared: Prepared) -> Sequence[Placed]:
        request = _request(prepared)
        with _translated(request):
            rows = self._fetch(request)
        return request.answered(rows)

    async def aplace(self, prepared: Prepared) -> Sequence[Placed]:
        request = _request(prepared)
        with _translated(request):
            rows = await self._afetch(request)
        return request.answered(rows)

    def _fetch(self, request: Request) -> Sequence[Row]:
        raise NotImplementedError

    async def _afetch(self, request: Request) -> Sequence[Row]:
        raise NotImplementedError


# ----------------------------------------------------------------------------------------------------------- asyncpg


class _Asyncpg(Caller):
    described = "an asyncpg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return not self._passed.is_in_transaction()

    async def _afetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = await self._passed.fetch(request.text, *request.arguments)
        return rows


# ----------------------------------------------------------------------------------------------------------- psycopg


class _Psycopg(Caller):
    described = "a psycopg connection"
    blocking = True
    begin = "with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _psycopg_commits_at_once(self._passed)

    def _fetch(self, request: Request) -> Sequence[Row]:
        """A cursor of our own: the caller's may send other placeholders, and make something else of rows."""
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            rows: Sequence[Row] = cursor.execute(request.text_with_percent, request.arguments).fetchall()
        return rows


class _AsyncPsycopg(Caller):
    described = "an async psycopg connection"
    blocking = False
    begin = "async with connection.transaction(): …"

    def commits_at_once(self) -> bool:
        return _psycopg_commits_at_once(self._passed)

    async def _afetch(self, request: Request) -> Sequence[Row]:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._passed, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(request.text_with_percent, request.arguments)
            rows: Sequence[Row] = await cursor.fetchall()
        return rows


def _psycopg_commits_at_once(connection: Any) -> bool:
    idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
    return bool(connection.autocommit and connection.info.transaction_status == idle)


# -------------------------------------------------------------------------------------------------------- SQLAlchemy


class _Alchemy(Caller):
    described = "a SQLAlchemy connection"
    blocking = True
    begin = "with connection.begin(): …"

    def _connection(self) -> Any:
        return self._passed

    def commits_at_once(self) -> bool:
        return _alchemy_commits_at_once(self._connection())

    def _fetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = self._connection().execute(_text(request), request.named).all()
        return rows


class _AlchemySession(_Alchemy):
    """`connection()` joins the session's transaction, and begins it where it had not begun. It flushes nothing."""

    described = "a SQLAlchemy session"
    begin = "with session.begin(): …"

    def _connection(self) -> Any:
        return self._passed.connection()


class _AsyncAlchemy(Caller):
    described = "an async SQLAlchemy connection"
    blocking = False
    begin = "async with connection.begin(): …"

    def commits_at_once(self) -> bool:
        return _alchemy_commits_at_once(self._passed.sync_connection)

    async def _connection(self) -> Any:
        return self._passed

    async def _afetch(self, request: Request) -> Sequence[Row]:
        rows: Sequence[Row] = (await (await self._connection()).execute(_text(request), request.named)).all()
        return rows


class _AsyncAlchemySession(_AsyncAlchemy):
    described = "an async SQLAlchemy session"
    begin = "async with session.begin(): …"

    async def acommits_at_once(self) -> bool:
        return _alchemy_commits_at_once((await self._connection()).sync_connection)

    async def _connection(self) -> Any:
        return await self._passed.connection()


def _text(request: Request) -> Any:
    return sys.modules["sqlalchemy"].text(request.text_with_names)


def _alchemy_commits_at_once(connection: Any) -> bool:
    if connection.dialect.name != "postgresql":
        raise _no_postgres(f"a SQLAlchemy connection to {connection.dialect.name}")
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


# ------------------------------------------------------------------------------------------------------------ Django


class _Django(Caller):
    described = "a Django connection"
    blocking = True
    begin = "with transaction.atomic(): …"

    def commits_at_once(self) -> bool:
        if self._passed.vendor != "postgresql":
            raise _no_postgres(f"a Django connection to {self._passed.vendor}")
        return bool(self._passed.get_autocommit()) and not self._passed.in_atomic_block

    def _fetch(self, request: Request) -> Sequence[Row]:
        with self._passed.cursor() as cursor:
            cursor.execute(request.text_with_percent, request.arguments)
            rows: Sequence[Row] = cursor.fetchall()
        return rows


# By the package and the name of a class: of the object itself, or of one that it is derived from.
_KINDS: Mapping[tuple[str, str], type[Caller]] = {
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("psycopg", "Connection"): _Psycopg,
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("sqlalchemy", "Connection"): _Alchemy,
    ("sqlalchemy", "Session"): _AlchemySession,
    ("sqlalchemy", "scoped_session"): _AlchemySession,
    ("sqlalchemy", "AsyncConnection"): _AsyncAlchemy,
    ("sqlalchemy", "AsyncSession"): _AsyncAlchemySession,
    ("sqlalchemy", "async_scoped_session"): _AsyncAlchemySession,
    ("django", "BaseDatabaseWrapper"): _Django,
    ("django", "ConnectionProxy"): _Django,
}


def _no_postgres(got: str) -> InvalidInput:
    return InvalidInput(
        f"within(…) got {got}, and jobs are kept in Postgres. Nothing was enqueued.",
        fix="Pass the connection or session of the Postgres that has Leasehold's schema.",
    )


def _request(prepared: Prepared) -> Request:
    assert isinstance(prepared, Request)
    return prepared


# ------------------------------------------------------------------------------------------------------------ errors

_LOST_A_RACE = ("40001", "40P01")
_NO_SCHEMA = ("3F000", "42883", "42P01")
_NOT_ALLOWED = "42501"


@contextmanager
def _translated(request: Request) -> Iterator[None]:
    """What a caller would act on, in our words. The rest is between the caller and its driver, and passes as is."""
    try:
        yield
    except Exception as error:
        state = _sqlstate(error)
        if state in _LOST_A_RACE:
            raise TransactionConflict(
                f"your transaction lost a race ({_first_line(error)}). Roll back, and nothing of it is kept.",
                fix="Run the whole transaction again.",
            ) from error
        if state in _NO_SCHEMA:
            raise SchemaMismatch(
                f'the database of your connection has no schema "{request.schema}" of this version '
                f"({_first_line(error)}). Nothing was enqueued.",
                fix="Pass a connection to the database that LEASEHOLD_URL names, or run there: leasehold migrate",
            ) from error
        if state == _NOT_ALLOWED:
            raise InvalidInput(
                f"the role of your connection may not enqueue ({_first_line(error)}). Nothing was enqueued.",
                fix=f"Grant it: grant usage on schema {request.schema} to …; "
                f"grant execute on function {request.schema}.enqueue_jobs to …",
            ) from error
        raise


def _sqlstate(error: BaseException | None) -> str | None:
    """Drivers call it so or so, and what wraps them keeps their error as its origin or cause."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            state = getattr(error, name, None)
            if isinstance(state, str):
                return state
        error = getattr(error, "orig", None) or error.__cause__
    return None


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).partition("\n")[0]

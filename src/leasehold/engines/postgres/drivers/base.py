"""The two uses of a connection that is not ours: a caller's, to enqueue within, and a handler's, to finish within.

Each library has a module beside this one, with a class for each use. A class sends one statement, and knows whether
its library blocks and whether a transaction is open. Libraries are recognised by the names of their types: none is
imported that the caller has not imported.
"""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any, ClassVar

from leasehold.engines.postgres.errors import translated_for_caller
from leasehold.engines.postgres.request import Request, Row
from leasehold.errors import InvalidInput
from leasehold.model.job import EnqueueResult
from leasehold.store import Prepared


class Caller:
    """A connection or session that is not ours. It is never committed, rolled back or closed here."""

    described: ClassVar[str]
    blocking: ClassVar[bool]
    begin: ClassVar[str]
    """How its users write that a transaction begins."""

    def __init__(self, passed: Any) -> None:
        self._passed = passed

    def commits_at_once(self) -> bool:
        """Whether each statement is a transaction of its own: none is open, and none begins by itself."""
        raise NotImplementedError

    async def acommits_at_once(self) -> bool:
        return self.commits_at_once()

    def place(self, prepared: Prepared) -> Sequence[EnqueueResult]:
        request = _request(prepared)
        with translated_for_caller(request.schema):
            rows = self._fetch(request)
        return request.answered(rows)

    async def aplace(self, prepared: Prepared) -> Sequence[EnqueueResult]:
        request = _request(prepared)
        with translated_for_caller(request.schema):
            rows = await self._afetch(request)
        return request.answered(rows)

    def _fetch(self, request: Request) -> Sequence[Row]:
        raise NotImplementedError

    async def _afetch(self, request: Request) -> Sequence[Row]:
        raise NotImplementedError


class TransactionDriver:
    """A connection or session that a handler writes with, and the worker ends.

    Each method answers at once or with an awaitable, as its library does: `HandlerTransaction` serves both.
    """

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
        return then(self.connection.commit(), lambda _: self._close())

    def rollback(self) -> Any:
        return then(self.connection.rollback(), lambda _: self._close())

    def abandon(self) -> None:
        """Drops the connection without a message to a server that may never answer, where the library can."""

    def _close(self) -> Any:
        return self.connection.close()


def then(asked: Any, go_on: Callable[[Any], Any]) -> Any:
    """Goes on with the answer: now, or once it was awaited."""
    return _later(asked, go_on) if isawaitable(asked) else go_on(asked)


async def _later(asked: Awaitable[Any], go_on: Callable[[Any], Any]) -> Any:
    next_ = go_on(await asked)
    return await next_ if isawaitable(next_) else next_


def named(value: str | None) -> dict[str, str]:
    return {} if value is None else {"value": value}


def not_postgres(got: str) -> InvalidInput:
    return InvalidInput(
        f"within(…) got {got}, and jobs are kept in Postgres. Nothing was enqueued.",
        fix="Pass the connection or session of the Postgres that has Leasehold's schema.",
    )


def _request(prepared: Prepared) -> Request:
    assert isinstance(prepared, Request)
    return prepared

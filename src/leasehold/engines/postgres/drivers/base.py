"""The two uses of a connection that is not ours: a caller's, to enqueue within, and a handler's, to finish within.

Each library has a module beside this one, with a class for each use. A class sends one statement, and knows whether
its library blocks and whether a transaction is open. Libraries are recognised by the names of their types, so that no
library is imported that the caller has not imported.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.errors import translate_for_caller
from leasehold.errors import InvalidInput
from leasehold.store import Prepared

A = TypeVar("A")


class Caller:
    """A connection or session that is not ours. It is never committed, rolled back or closed here."""

    description: ClassVar[str]
    blocking: ClassVar[bool]
    begin: ClassVar[str]
    """The code by which its users begin a transaction."""

    def __init__(self, passed: Any) -> None:
        self._passed = passed

    def commits_at_once(self) -> bool:
        """Returns whether each statement is a transaction of its own: none is open, and none begins by itself."""
        raise NotImplementedError

    async def acommits_at_once(self) -> bool:
        return self.commits_at_once()

    def place(self, prepared: Prepared[A]) -> A:
        call = _call(prepared)
        with translate_for_caller(call.schema):
            rows = self._fetch(call)
        return prepared.read_answer(rows)

    async def aplace(self, prepared: Prepared[A]) -> A:
        call = _call(prepared)
        with translate_for_caller(call.schema):
            rows = await self._afetch(call)
        return prepared.read_answer(rows)

    def _fetch(self, call: CallerStatement) -> Sequence[Row]:
        raise NotImplementedError

    async def _afetch(self, call: CallerStatement) -> Sequence[Row]:
        raise NotImplementedError


class BlockingDriver:
    """A blocking connection or session that a handler writes with. Used only in the handler's own thread."""

    blocking: Literal[True] = True

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def begin(self) -> None:
        """Begins a transaction where the library does not begin one with the first statement."""

    def flush(self) -> None:
        """Writes objects that a session holds back."""

    def ask(self, statement: str, value: str | None) -> Any:
        """Returns the only value of the answer. `value` stands for $1, if there is one."""
        raise NotImplementedError

    def commit(self) -> None:
        self.connection.commit()
        self.close()

    def rollback(self) -> None:
        self.connection.rollback()
        self.close()

    def abandon(self) -> None:
        """Drops the connection without a message to a server that may never answer, where the library can."""

    def close(self) -> None:
        self.connection.close()


class AsyncDriver:
    """A connection or session that a handler writes with and awaits."""

    blocking: Literal[False] = False

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        """Begins a transaction where the library does not begin one with the first statement."""

    async def flush(self) -> None:
        """Writes objects that a session holds back."""

    async def ask(self, statement: str, value: str | None) -> Any:
        """Returns the only value of the answer. `value` stands for $1, if there is one."""
        raise NotImplementedError

    async def commit(self) -> None:
        await self.connection.commit()
        await self.close()

    async def rollback(self) -> None:
        await self.connection.rollback()
        await self.close()

    def abandon(self) -> None:
        """Drops the connection without a message to a server that may never answer, where the library can."""

    async def close(self) -> None:
        await self.connection.close()


def parameters_of(value: str | None) -> dict[str, str]:
    return {} if value is None else {"value": value}


def not_postgres(got: str) -> InvalidInput:
    return InvalidInput(
        f"within(…) got {got}, and jobs are kept in Postgres. Nothing was enqueued.",
        fix="Pass the connection or session of the Postgres that has Leasehold's schema.",
    )


def _call(prepared: Prepared[Any]) -> CallerStatement:
    assert isinstance(prepared, CallerStatement)
    return prepared

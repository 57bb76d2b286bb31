"""Transactions of others: a handler's, which the worker ends, a caller's, and one that takes many enqueues."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeVar

from leasehold.model.job import EnqueueResult, NewJob

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class FinishAnswer(StrEnum):
    """FINISHED: commit. Otherwise roll back: the claim is lost, or its transaction has ended before."""

    FINISHED = "finished"
    FENCED = "fenced"
    ENDED = "ended"


class BlockingFinishingTransaction(Protocol):
    """A transaction that a handler writes in and the worker ends, by calls that block.

    Once it has begun, the handler writes by `connection`. `commit` and `rollback` also close the connection that the
    handler handed over; `abandon` drops it without a message.
    """

    @property
    def blocking(self) -> Literal[True]: ...

    @property
    def connection(self) -> Any: ...

    def begin(self) -> None: ...

    def finish(self, result: str | None) -> FinishAnswer: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def abandon(self) -> None: ...


class AsyncFinishingTransaction(Protocol):
    """A transaction that a handler writes in and the worker ends, by calls that are awaited.

    As the blocking one. A connection that the engine lent is taken back by `commit` and `rollback`.
    """

    @property
    def blocking(self) -> Literal[False]: ...

    @property
    def connection(self) -> Any: ...

    async def begin(self) -> None: ...

    async def finish(self, result: str | None) -> FinishAnswer: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    def abandon(self) -> None: ...


FinishingTransaction = BlockingFinishingTransaction | AsyncFinishingTransaction
"""`blocking` tells which of the two."""


class Prepared(Protocol[A_co]):
    """One statement for a caller's transaction: all that needs no `Caller` is done, and it is left to send."""

    def read_answer(self, rows: Sequence[Any]) -> A_co:
        """Returns the meaning of the rows that the statement returned."""


class Caller(Protocol):
    """A caller's connection or session, in whose transaction jobs are enqueued.

    It is used only in the caller's own thread (`blocking`) or on the caller's own loop, and never committed, rolled
    back or closed. After a refusal its transaction is still usable.
    """

    @property
    def description(self) -> str: ...

    @property
    def begin(self) -> str:
        """The code by which its users begin a transaction."""

    @property
    def blocking(self) -> bool:
        """Whether to call `place` and `commits_at_once`, or to await their twins."""

    def commits_at_once(self) -> bool:
        """Returns whether no transaction is open and none will begin by itself."""

    async def acommits_at_once(self) -> bool: ...

    def place(self, prepared: Prepared[A]) -> A: ...

    async def aplace(self, prepared: Prepared[A]) -> A: ...


class BulkTransaction(Protocol):
    """A transaction for many enqueues. It commits when its block ends, and then wakes workers for its jobs."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        """Enqueues in the order of the calls; may be called again before it has answered."""

"""Gives a handler access to its job: facts, log lines, progress, the transaction."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, overload

from leasehold.errors import InvalidInput
from leasehold.model.job import Claim, JobId, LineKind, TenantId
from leasehold.worker.handler_transaction import HandlerTransaction, TransactionContext

C = TypeVar("C")


class Job:
    """The job as its handler sees it. The handler sends no heartbeat: the worker holds the lease.

    When the lease is lost, the handler is stopped, and nothing that it logs or returns is recorded any more.
    """

    # With slots an instance is made in half the time; a handler may still set attributes of its own.
    __slots__ = (
        *("_canceled", "_claim", "_transaction", "_transactions", "_given_up", "_in_thread", "_append_line"),
        *("__dict__", "__weakref__"),
    )

    def __init__(
        self,
        claim: Claim,
        append_line: Callable[[Claim, str, LineKind, float | None], None],
        transactions: TransactionContext | None = None,
    ) -> None:
        self._claim = claim
        self._append_line = append_line
        self._canceled = False
        self._transactions = transactions
        self._transaction: HandlerTransaction[Any] | None = None
        self._given_up = False
        self._in_thread = False

    @property
    def id(self) -> JobId:
        return self._claim.job

    @property
    def tenant(self) -> TenantId:
        return self._claim.tenant

    @property
    def definition(self) -> str:
        return self._claim.definition.key

    @property
    def tries(self) -> int:
        """Which of its `max_attempts` tries this is, from 1. A snooze or a hand-back uses none."""
        return self._claim.tries

    @property
    def attempt(self) -> int:
        """The number of this claim, part of the fence: it also goes up with snoozes and hand-backs. See `tries`."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def queued_at(self) -> datetime:
        return self._claim.queued_at

    @property
    def correlation_id(self) -> str | None:
        return self._claim.correlation_id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this job, and for no other job: for services that must act only once."""
        return f"{self.tenant}/{self.id}"

    @overload
    def transaction(self) -> HandlerTransaction[Any]: ...
    @overload
    def transaction(self, yours: C) -> HandlerTransaction[C]: ...
    def transaction(self, yours: Any = None) -> HandlerTransaction[Any]:
        """Opens a block whose writes happen once: they are committed with the job's result and finish, or never.

            async with job.transaction() as connection:          # of ours, by asyncpg
            async with job.transaction(AsyncSession(engine)) as session:
            with job.transaction(Session(engine)) as session:    # in a handler that is a plain function

        The worker commits after the handler has returned, not at the end of the block. It also closes the session or
        connection that you pass in: if you commit, roll back or close it yourself, the job fails. If the handler
        raises, times out or is canceled, or the lease is lost, everything is rolled back. Each attempt has one block;
        a block that ended by an exception has rolled back, and another may begin.
        """
        if self._transactions is None:
            raise InvalidInput(
                "this job is run by no worker, and so has no transaction to finish in. Nothing was begun.",
                fix="Run it by a worker.",
            )
        return HandlerTransaction(self, self._transactions, yours)

    @property
    def canceled(self) -> bool:
        """Whether a cancel was requested. For handlers in threads, which can't be interrupted."""
        return self._canceled

    def log(self, text: str) -> None:
        """Logs a line for people, seen live. Lines are written in small batches, at most once a second.

        After a lost lease nothing is written. At most 1,000 lines wait to be written; one line in place of further
        ones tells how many were dropped.
        """
        self._append_line(self._claim, str(text), LineKind.LOG, None)

    def progress(self, fraction: float, text: str = "") -> None:
        """Records how far the job is, from 0 to 1. All reports are kept, in order."""
        self._append_line(self._claim, str(text), LineKind.PROGRESS, min(1.0, max(0.0, fraction)))

    def _request_cancel(self) -> None:
        self._canceled = True

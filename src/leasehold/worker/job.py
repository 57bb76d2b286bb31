"""Gives a handler access to its job: facts, log lines, progress, the transaction."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, overload

from leasehold.config import process_redactor
from leasehold.errors import InvalidInput
from leasehold.model.job import Claim, JobId, LineKind, TenantId
from leasehold.model.process import ProcessEnd
from leasehold.model.redaction import Redactor
from leasehold.worker.handler_transaction import HandlerTransaction, TransactionContext
from leasehold.worker.log_buffer import LONGEST_LINE

C = TypeVar("C")

NOT_OPENED = object()
"""The state of a job that a test calls without a worker, of an app that has a lifespan."""


def _ignore_dropped(claim: Claim, count: int) -> None: ...


class Job:
    """The job as its handler sees it. The handler sends no heartbeat: the worker holds the lease.

    When the lease is lost, the handler is stopped, and nothing that it logs or returns is recorded any more.
    """

    # With slots an instance is made in half the time; a handler may still set attributes of its own.
    __slots__ = (
        *("_canceled", "_claim", "_transaction", "_transactions", "_given_up", "_in_thread", "_append_line"),
        *("_redactor", "_drop_lines", "_stops_at_once", "_process", "_cpu", "_state", "_lease"),
        *("__dict__", "__weakref__"),
    )

    def __init__(
        self,
        claim: Claim,
        append_line: Callable[[Claim, str, LineKind, float | None], bool],
        transactions: TransactionContext | None = None,
        redactor: Redactor | None = None,
        drop_lines: Callable[[Claim, int], None] = _ignore_dropped,
        state: Any = None,
    ) -> None:
        """`append_line` returns False for a line that is not kept; `drop_lines` counts lines that it never gets."""
        self._claim = claim
        self._redactor = redactor or process_redactor()
        self._state = state
        self._append_line = append_line
        self._drop_lines = drop_lines
        self._canceled = False
        self._transactions = transactions
        self._transaction: HandlerTransaction[Any] | None = None
        self._given_up = False
        self._in_thread = False
        self._stops_at_once = False
        self._process: ProcessEnd | None = None
        self._lease: Callable[[], int] | None = None
        self._cpu: float | None = None

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

    @property
    def state(self) -> Any:
        """The value of the app's lifespan in this process, which all its jobs share; None if the app has none."""
        if self._state is NOT_OPENED:
            raise InvalidInput(
                "this job is run by no worker, so the lifespan of the app is not open. Nothing was changed.",
                fix="Give the test a state of its own: with app.override(state=…).",
            )
        return self._state

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

        After a lost lease nothing is written. At most 1,000 lines wait to be written (the worker's setting
        `log_lines`); one line in place of further ones tells how many were dropped.
        """
        self._append(text, LineKind.LOG, None)

    def progress(self, fraction: float, text: str = "") -> None:
        """Records how far the job is, from 0 to 1. All reports are kept, in order."""
        self._append(text, LineKind.PROGRESS, min(1.0, max(0.0, fraction)))

    def _append(self, text: object, kind: LineKind, progress: float | None) -> bool:
        """Redacts before the line is cut: a part of a secret could not be found. Returns whether it is kept."""
        return self._append_line(self._claim, self._redactor.beginning(str(text), LONGEST_LINE), kind, progress)

    def _request_cancel(self) -> None:
        self._canceled = True

"""Commits a handler's writes, its result and its finish in one transaction.

The handler writes, the worker ends the transaction. Until the finish the job's row is not touched, so that a cancel
never waits. Then the transaction is either finished and committed, or rolled back and finished in the ordinary way.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from leasehold.errors import BlockingCall, InvalidInput, LeaseholdError, Unreachable
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import Outcome, Raised, Succeeded
from leasehold.model.redaction import Redactor
from leasehold.store import FinishAnswer, FinishingTransaction, Store
from leasehold.worker.tracebacks import message_of

log = logging.getLogger("leasehold.worker")
C = TypeVar("C")
T = TypeVar("T")

ROLLING_BACK = 5.0
# Held for a moment, when an attempt with a transaction ends or is stopped: one of the two comes first.
_fate = threading.Lock()


class TransactionOwner(Protocol):
    """The job that a transaction belongs to."""

    _claim: Claim
    _transaction: "HandlerTransaction[Any] | None"
    _given_up: bool
    _in_thread: bool
    _redactor: Redactor


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """The worker's side of a transaction: the store, its time limit, the log lines, and whether the lease holds."""

    store: Store
    in_time: Callable[[Awaitable[Any]], Awaitable[Any]]
    write_lines: Callable[[Claim], Awaitable[None]]
    holds: Callable[[], bool]
    loop: asyncio.AbstractEventLoop

    def begin(self, claim: Claim, given: object | None) -> FinishingTransaction:
        if not self.store.abilities.caller_transaction:
            raise InvalidInput(
                "this engine can't finish a job in its handler's transaction. Nothing was begun.",
                fix="Make the handler repeatable instead: job.idempotency_key is the same for every attempt.",
            )
        return self.store.transaction(claim, given)


class HandlerTransaction(Generic[C]):
    """Returned by `job.transaction()`: a block that yields a connection or session to write with.

    A block that ends by an exception rolls back, and another may begin. A block that ends well leaves the transaction
    open: it is committed with the result when the handler has returned, and rolled back if the handler raises.
    """

    def __init__(self, job: TransactionOwner, context: TransactionContext, given: object | None) -> None:
        self._job = job
        self._context = context
        self._claim = job._claim
        self._given = given
        self._transaction: FinishingTransaction
        self._begun = False
        self._over = False
        self._settled: list[Outcome | None] = []
        self.ending = False
        self.committed = False

    # ---------------------------------------------------------------------------------------------- in the handler

    async def __aenter__(self) -> C:
        self._make()
        if self._transaction.blocking:
            raise BlockingCall(
                "the worker would end this transaction by blocking its event loop. Nothing was begun.",
                fix="Hand over an async session or connection; or make the handler a plain function.",
            )
        try:
            await self._transaction.begin()
        except BaseException:
            if self._given is None:
                self._transaction.abandon()
            raise
        return self._has_begun()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self.roll_back()

    def __enter__(self) -> C:
        self._make()
        if not self._job._in_thread or not self._transaction.blocking:
            raise InvalidInput(
                "with job.transaction(…) is for plain functions, and takes a blocking session or connection of "
                "yours. Nothing was begun.",
                fix="In a coroutine write async with; in a plain function hand over a Session, or one of psycopg.",
            )
        self._transaction.begin()
        return self._has_begun()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            _run(self.roll_back())

    def _make(self) -> None:
        if self._begun or self._job._transaction is not None:
            raise InvalidInput(
                f"job {self._claim.job} has begun its transaction already, and ends in only one. Nothing was begun.",
                fix="Do all that belongs together in one block.",
            )
        self._transaction = self._context.begin(self._claim, self._given)

    def _has_begun(self) -> C:
        self._begun = True
        self._job._transaction = self
        connection: C = self._transaction.connection
        return connection

    # ------------------------------------------------------------------------------------------ after the handler

    async def end(self, outcome: Outcome) -> Outcome | None:
        """Finishes and commits, or rolls back. Returns the outcome for the ordinary finish; None: write nothing."""
        if self._over or (self._transaction.blocking and not self._is_its_thread()):
            return self._settled[0] if self._settled else outcome
        if not isinstance(outcome, Succeeded) or not self._comes_first():
            await self.roll_back()
            return outcome
        try:
            refusal = await self._finish(outcome)
        except BaseException as error:
            await self.roll_back()
            if not isinstance(error, Exception):
                raise
            return self._failure_of(error)
        if refusal is not None:
            await self.roll_back()
            return await self._explain(refusal)
        return await self._commit(outcome)

    def end_in_thread(self, outcome: Outcome) -> None:
        """Ends it in the handler's thread, to which its library may be bound; `end` on the loop finds it done."""
        settled = _run(self.end(outcome))
        self._settled.append(settled)

    def roll_back_in_thread(self) -> None:
        _run(self.roll_back())

    async def roll_back(self) -> None:
        """Rolls back. A connection that does not answer is abandoned, which rolls back too."""
        if self._over or (self._transaction.blocking and not self._is_its_thread()):
            return
        self._over = True
        self._job._transaction = self if self.ending else None
        await self._roll_back_or_abandon()

    async def _roll_back_or_abandon(self) -> None:
        try:
            await _within(ROLLING_BACK, self._transaction.rollback())
        except Exception as error:
            log.warning("the rollback of job %s was not answered: %r", self._claim.job, error)
            self._transaction.abandon()
        except BaseException:
            self._transaction.abandon()
            raise

    async def _finish(self, outcome: Succeeded) -> FinishAnswer | None:
        """Writes the finish into the transaction. Returns None if it may be committed."""
        await self._ask_on_loop(self._context.write_lines(self._claim))
        if not self._context.holds():
            return FinishAnswer.FENCED
        reach("before_finish_within")
        answer: FinishAnswer = await self._patiently(self._transaction.finish(outcome.result))
        reach("before_commit")
        return None if answer is FinishAnswer.FINISHED else answer

    async def _commit(self, outcome: Succeeded) -> Outcome | None:
        self._over = True
        try:
            await self._patiently(self._transaction.commit())
        except BaseException as error:
            await self._end_uncommitted(error)
            if not isinstance(error, Exception):
                raise
            self.committed = await self._was_committed()
            return outcome if self.committed else self._failure_of(error)
        reach("after_commit")
        self.committed = True
        return outcome

    async def _end_uncommitted(self, error: BaseException) -> None:
        """Ends a transaction whose commit has failed. If a library failed by itself, it still locks the job, and is
        rolled back. If the server seems to be away, or the attempt is being stopped, nothing more is asked.
        """
        if isinstance(error, Unreachable | OSError) or not isinstance(error, Exception):
            self._transaction.abandon()
        else:
            await self._roll_back_or_abandon()

    async def _was_committed(self) -> bool:
        """Asks the database. If it can't be asked now, the ordinary finish meets the same fence."""
        with suppress(LeaseholdError):
            job = await self._ask_on_loop(self._look_up())
            return job is not None and job.status.final and _is_of(self._claim, job)
        return False

    async def _explain(self, refusal: FinishAnswer) -> Outcome | None:
        if refusal is FinishAnswer.ENDED:
            return Raised(
                "transaction_ended",
                "the transaction of job.transaction() was committed, rolled back or closed before the handler "
                "returned; only the worker may end it. Writes that were committed by then stay, hence no retry",
                final=True,
            )
        try:
            job = await self._ask_on_loop(self._look_up())
        except LeaseholdError as error:
            return self._failure_of(error)
        if job is not None and not job.status.final and _is_of(self._claim, job) and self._context.holds():
            return Raised(
                "transaction_elsewhere",
                "the connection that job.transaction() got leads to another database than the one that holds this "
                "job, or sees an older state of it; what was written was rolled back",
            )
        log.warning(
            "LH-4001: job %s try %d lost its lease; what it wrote was rolled back, nothing was recorded twice",
            self._claim.job,
            self._claim.tries,
        )
        return None

    def _comes_first(self) -> bool:
        """Returns whether the end comes before a stop. From then on nothing stops the attempt: the fence decides."""
        with _fate:
            self.ending = not self._job._given_up
        return self.ending

    def _failure_of(self, error: BaseException) -> Raised:
        return Raised(type(error).__name__, message_of(error, self._job._redactor))

    async def _look_up(self) -> Any:
        return await self._context.store.tenant(self._claim.tenant).get(self._claim.job)

    async def _patiently(self, asked: Any) -> Any:
        return await self._context.in_time(asked) if isawaitable(asked) else asked

    async def _ask_on_loop(self, asked: Awaitable[T]) -> T:
        """Asks on the worker's loop; a handler's thread blocks until the answer, and so never suspends."""
        patient: Awaitable[T] = self._context.in_time(asked)
        if not self._is_its_thread():
            return await patient
        return asyncio.run_coroutine_threadsafe(_await(patient), self._context.loop).result()

    def _is_its_thread(self) -> bool:
        return self._job._in_thread and not _on_a_loop()


def _is_of(claim: Claim, job: Any) -> bool:
    return (job.worker, job.attempt, job.started_at) == (claim.worker, claim.attempt, claim.started_at)


def give_up(job: TransactionOwner) -> bool:
    """Claims the right to stop an attempt. Returns False if it is already being finished."""
    with _fate:
        if job._transaction is not None and job._transaction.ending:
            return False
        job._given_up = True
        return True


def _run(steps: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a thread without a loop; it awaits nothing that suspends, so one step is enough."""
    try:
        steps.send(None)
    except StopIteration as ended:
        answer: T = ended.value
        return answer
    raise RuntimeError("a blocking transaction waited for an event loop")


async def _within(seconds: float, asked: Any) -> None:
    if isawaitable(asked):
        async with asyncio.timeout(seconds):
            await asked


async def _await(asked: Awaitable[T]) -> T:
    return await asked


def _on_a_loop() -> bool:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False

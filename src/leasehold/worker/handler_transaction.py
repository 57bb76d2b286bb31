"""Effects that happen once: what a handler writes, its result and its finish, in one transaction.

The handler writes, the worker ends. Until the finish the job's row is not touched, so that a cancel never waits. Then
it is one way or the other: finished and committed, or rolled back and finished in the ordinary way.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.errors import BlockingCall, InvalidInput, LeaseholdError
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import Outcome, Raised, Succeeded
from leasehold.store import FinishAnswer, FinishingTransaction, Store
from leasehold.worker.tracebacks import message_of

if TYPE_CHECKING:
    from leasehold.worker.job import Job

log = logging.getLogger("leasehold.worker")
C = TypeVar("C")
T = TypeVar("T")

ROLLING_BACK = 5.0
# Held for a moment, and only where a run with effects ends or is stopped: of the two, one comes first.
_fate = threading.Lock()


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """What the end of a transaction needs of its worker: its store, patience, the lines said, and a lease."""

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
    """What `job.transaction()` answers with: a block that hands out what to write by.

    A block that ends by an exception has rolled back, and another may begin. One that ends well leaves it open:
    it is committed when the handler has returned, together with the result, and not at all if it raises.
    """

    def __init__(self, job: "Job", ends: TransactionContext, given: object | None) -> None:
        self._job = job
        self._ends = ends
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
        if self._begun or self._job._effects is not None:
            raise InvalidInput(
                f"job {self._claim.job} has begun its transaction already, and ends in only one. Nothing was begun.",
                fix="Do all that belongs together in one block.",
            )
        self._transaction = self._ends.begin(self._claim, self._given)

    def _has_begun(self) -> C:
        self._begun = True
        self._job._effects = self
        connection: C = self._transaction.connection
        return connection

    # ------------------------------------------------------------------------------------------ after the handler

    async def end(self, outcome: Outcome) -> Outcome | None:
        """Finishes and commits; or rolls back, and the answer is left to the ordinary finish. None: write nothing."""
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
            return _raised(error)
        if refusal is not None:
            await self.roll_back()
            return await self._explained(refusal)
        return await self._commit(outcome)

    def end_in_thread(self, outcome: Outcome) -> None:
        """For a handler in a thread, whose library may belong to that thread: `end` on the loop finds it done."""
        settled = _run(self.end(outcome))
        self._settled.append(settled)

    def roll_back_in_thread(self) -> None:
        _run(self.roll_back())

    async def roll_back(self) -> None:
        """However that goes: whoever does not answer is left alone, and has then rolled back, too."""
        if self._over or (self._transaction.blocking and not self._is_its_thread()):
            return
        self._over = True
        self._job._effects = self if self.ending else None
        try:
            await _within(ROLLING_BACK, self._transaction.rollback())
        except Exception as error:
            log.warning("the rollback of job %s was not answered: %r", self._claim.job, error)
            self._transaction.abandon()
        except BaseException:
            self._transaction.abandon()
            raise

    async def _finish(self, outcome: Succeeded) -> FinishAnswer | None:
        """In the transaction. None: nothing stands against a commit."""
        await self._asked_of_the_worker(self._ends.write_lines(self._claim))
        if not self._ends.holds():
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
            self._transaction.abandon()
            if not isinstance(error, Exception):
                raise
            self.committed = await self._was_committed()
            return outcome if self.committed else _raised(error)
        reach("after_commit")
        self.committed = True
        return outcome

    async def _was_committed(self) -> bool:
        """Nobody knows but the database. Where it can't be asked now, the ordinary finish meets the same fence."""
        with suppress(LeaseholdError):
            job = await self._asked_of_the_worker(self._looked_up())
            return job is not None and job.status.final and self._is_ours(job)
        return False

    async def _explained(self, refusal: FinishAnswer) -> Outcome | None:
        if refusal is FinishAnswer.ENDED:
            return Raised(
                "transaction_ended",
                "the transaction of job.transaction() was committed, rolled back or closed before the handler "
                "returned; only the worker may end it. What was committed by then is not undone, hence no retry",
                final=True,
            )
        try:
            job = await self._asked_of_the_worker(self._looked_up())
        except LeaseholdError as error:
            return _raised(error)
        if job is not None and not job.status.final and self._is_ours(job) and self._ends.holds():
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
        """From now on nothing stops the run any more: the fence in its transaction decides."""
        with _fate:
            self.ending = not self._job._given_up
        return self.ending

    def _is_ours(self, job: Any) -> bool:
        claim = self._claim
        return (job.worker, job.attempt, job.started_at) == (claim.worker, claim.attempt, claim.started_at)

    async def _looked_up(self) -> Any:
        return await self._ends.store.tenant(self._claim.tenant).get(self._claim.job)

    async def _patiently(self, asked: Any) -> Any:
        return await self._ends.in_time(asked) if isawaitable(asked) else asked

    async def _asked_of_the_worker(self, asked: Awaitable[T]) -> T:
        """On its loop; a handler's thread waits for it, and so never suspends."""
        patient: Awaitable[T] = self._ends.in_time(asked)
        if not self._is_its_thread():
            return await patient
        return asyncio.run_coroutine_threadsafe(_awaited(patient), self._ends.loop).result()

    def _is_its_thread(self) -> bool:
        return self._job._in_thread and not _on_a_loop()


def give_up(job: "Job") -> bool:
    """Before a run is stopped. False: too late, it is being finished."""
    with _fate:
        if job._effects is not None and job._effects.ending:
            return False
        job._given_up = True
        return True


def _run(steps: Coroutine[Any, Any, T]) -> T:
    """To its end, in a thread without a loop: where nothing is awaited that suspends, it takes one step."""
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


async def _awaited(asked: Awaitable[T]) -> T:
    return await asked


def _on_a_loop() -> bool:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def _raised(error: BaseException) -> Raised:
    return Raised(type(error).__name__, message_of(error))

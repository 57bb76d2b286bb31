"""The job as its handler sees it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, overload

from leasehold.errors import InvalidInput
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import Claim, JobId, LineKind, TenantId
from leasehold.worker.handler_transaction import HandlerTransaction, TransactionContext

C = TypeVar("C")


class Snooze(Exception):
    """Raise it to run again after `delay` ("5s", a timedelta, seconds). No try is used up."""

    def __init__(self, delay: Duration) -> None:
        self.delay = read_duration(delay)
        super().__init__(f"again in {self.delay}")


class RetryLater(Exception):
    """Raise it to fail this try and be retried after `delay` ("5s", a timedelta, seconds), if tries are left."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay = read_duration(delay)
        super().__init__(message or f"retry in {self.delay}")


class Fail(Exception):
    """Raise it when no retry can help. The job ends as `failed`."""


class Job:
    """What a handler gets, beside its payload. It needs no heartbeat: the lease is the worker's.

    When the lease is lost, the run is stopped and nothing that it says or returns is recorded any more.
    """

    # With slots an instance is made in half the time; a handler may still set attributes of its own.
    __slots__ = (
        *("_canceled", "_claim", "_effects", "_ends", "_given_up", "_in_thread", "_say"),
        *("__dict__", "__weakref__"),
    )

    def __init__(
        self,
        claim: Claim,
        say: Callable[[Claim, str, LineKind, float | None], None],
        ends: TransactionContext | None = None,
    ) -> None:
        self._claim = claim
        self._say = say
        self._canceled = False
        self._ends = ends
        self._effects: HandlerTransaction[Any] | None = None
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
        """The same for every attempt of this job, and for no other job: hand it to whoever can't be asked twice."""
        return f"{self.tenant}/{self.id}"

    @overload
    def transaction(self) -> HandlerTransaction[Any]: ...
    @overload
    def transaction(self, yours: C) -> HandlerTransaction[C]: ...
    def transaction(self, yours: Any = None) -> HandlerTransaction[Any]:
        """What is written in this block happens once: it is committed with the job's result and finish, or never.

            async with job.transaction() as connection:          # of ours, by asyncpg
            async with job.transaction(AsyncSession(engine)) as session:
            with job.transaction(Session(engine)) as session:    # in a handler that is a plain function

        The commit comes when the handler has returned, not at the end of the block. The worker also closes what you
        hand over: commit, roll back or close it yourself, and the job fails. When the handler raises, times out or is
        canceled, or the lease is lost, all of it is rolled back. One block for each attempt; one that ended by an
        exception has rolled back, and may be begun again.
        """
        if self._ends is None:
            raise InvalidInput(
                "this job is run by no worker, and so has no transaction to finish in. Nothing was begun.",
                fix="Run it by a worker.",
            )
        return HandlerTransaction(self, self._ends, yours)

    @property
    def canceled(self) -> bool:
        """For handlers in threads, which nobody can interrupt: someone wants this job to stop."""
        return self._canceled

    def log(self, text: str) -> None:
        """A line for people, seen live. Written in small batches, at most once a second; after a lost lease, not.

        At most 1,000 lines wait to be written; a line in place of further ones says how many were dropped.
        """
        self._say(self._claim, str(text), LineKind.LOG, None)

    def progress(self, fraction: float, text: str = "") -> None:
        """How far it is, from 0 to 1. Of what is said within a second all is kept, in order."""
        self._say(self._claim, str(text), LineKind.PROGRESS, min(1.0, max(0.0, fraction)))

    def _request_cancel(self) -> None:
        self._canceled = True

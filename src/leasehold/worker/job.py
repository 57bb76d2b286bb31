"""The job as its handler sees it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from leasehold.model.job import Claim, JobId, LineKind, TenantId


class Snooze(Exception):
    """Raise it to run again after `delay`. The attempt costs nothing."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"again in {delay}")
        self.delay = _checked(delay)


class RetryLater(Exception):
    """Raise it to fail this attempt and be retried after a delay of your own choice, if attempts are left."""

    def __init__(self, delay: timedelta, message: str = "") -> None:
        super().__init__(message or f"retry in {delay}")
        self.delay = _checked(delay)


class Fail(Exception):
    """Raise it when no retry can help. The job ends as `failed`."""


class Job:
    """What a handler gets, beside its payload. It needs no heartbeat: the lease is the worker's.

    When the lease is lost, the run is stopped and nothing that it says or returns is recorded any more.
    """

    def __init__(self, claim: Claim, say: Callable[[Claim, str, LineKind, float | None], None]) -> None:
        self._claim = claim
        self._say = say
        self._canceled = False

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
    def attempt(self) -> int:
        """From 1, and always going up, snoozes and hand-backs included."""
        return self._claim.attempt

    @property
    def execution(self) -> int:
        """Which of `max_attempts` this is."""
        return self._claim.execution

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

    @property
    def canceled(self) -> bool:
        """For handlers in threads, which nobody can interrupt: someone wants this job to stop."""
        return self._canceled

    def log(self, text: str) -> None:
        """A line for people, seen live. Written in small batches, at most once a second; after a lost lease, not."""
        self._say(self._claim, str(text), LineKind.LOG, None)

    def progress(self, fraction: float, text: str = "") -> None:
        """How far it is, from 0 to 1. Of what is said within a second all is kept, in order."""
        self._say(self._claim, str(text), LineKind.PROGRESS, min(1.0, max(0.0, fraction)))

    def _request_cancel(self) -> None:
        self._canceled = True


def _checked(delay: timedelta) -> timedelta:
    """Here, where only its own job suffers: the finisher, which would stumble over it, works for all of them."""
    if not isinstance(delay, timedelta):
        raise TypeError(f"{delay!r} is no delay: pass a timedelta, as in timedelta(seconds=30)")
    return delay

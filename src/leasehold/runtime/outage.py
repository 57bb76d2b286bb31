"""Tells when the database is away: once when it goes, and once when it is back."""

import logging
from datetime import UTC, datetime
from time import monotonic

from leasehold.errors import Unreachable
from leasehold.model.job import WorkerId
from leasehold.runtime.supervise import log_wait
from leasehold.telemetry import DatabaseBack, DatabaseLost, Listeners

# A logger of its own, so that a listener that logs the events need not repeat these lines.
health_log = logging.getLogger("leasehold.worker.health")


class Outage:
    """Logs and reports the beginning and the end of each outage, however many statements fail meanwhile.

    Each loop of a worker tries again by itself: one lost database made twenty lines. Outlives the worker's sessions.
    `worker` is the latest registration; None before the first, and for a scheduler.
    """

    def __init__(self, listeners: Listeners | None = None, who: str = "worker") -> None:
        self._listeners = listeners or Listeners()
        self._who = who
        self._since: float | None = None
        self.worker: WorkerId | None = None

    @property
    def is_on(self) -> bool:
        return self._since is not None

    @property
    def seconds(self) -> float | None:
        """For how long the database has been away; None: it is not."""
        since = self._since
        return None if since is None else monotonic() - since

    def loop_waits(self, name: str, error: Unreachable) -> None:
        """Notes that one loop waits. A statement that is too slow concerns its loop alone, and is not an outage.

        A connection that was lost while it was idle is not one either: it broke in an outage that may be over.
        """
        if error.too_slow:
            log_wait(name, error)
        elif error.lost_before:
            health_log.debug("%s asks again: %s", name, error)
        else:
            self.begin(error)

    def begin(self, error: Exception, since: float | None = None) -> None:
        """Notes an error, now or at a time that another thread noted."""
        if self._since is None:
            self._since = monotonic() if since is None else since
            is_held = isinstance(error, Unreachable) and error.code != Unreachable.code
            how = "is there, but a lock is held" if is_held else "is away"
            why = str(error) or "no answer"
            health_log.warning("the database %s, the %s waits for it: %s", how, self._who, why)
            if self._listeners.wants(DatabaseLost):
                self._listeners.tell(DatabaseLost(at=datetime.now(UTC), worker=self.worker, error=why))
        else:
            health_log.debug("the database is still away: %s", error)

    def end(self, asked: float) -> None:
        """Notes an answer to a statement that was sent at `asked`.

        An answer to an earlier statement, which arrived just before the connections broke, does not end the outage.
        """
        if self._since is not None and asked >= self._since:
            seconds, self._since = monotonic() - self._since, None
            health_log.warning("the database is back after %.1f s", seconds)
            if self._listeners.wants(DatabaseBack):
                self._listeners.tell(DatabaseBack(at=datetime.now(UTC), worker=self.worker, seconds=seconds))

"""Logs when the database is away: once when it goes, and once when it is back."""

import logging
from time import monotonic

from leasehold.errors import Unreachable
from leasehold.runtime.supervise import log_wait

log = logging.getLogger("leasehold.worker")


class Outage:
    """Logs the beginning and the end of each outage, however many statements fail meanwhile.

    Each loop of a worker tries again by itself: one lost database made twenty lines. Outlives the worker's sessions.
    """

    def __init__(self) -> None:
        self._since: float | None = None

    def loop_waits(self, name: str, error: Unreachable) -> None:
        """Notes that one loop waits. A statement that is too slow concerns its loop alone, and is not an outage."""
        if error.too_slow:
            log_wait(name, error)
        else:
            self.begin(error)

    def begin(self, error: Exception, since: float | None = None) -> None:
        """Notes an error, now or at a time that another thread noted."""
        if self._since is None:
            self._since = monotonic() if since is None else since
            is_held = isinstance(error, Unreachable) and error.code != Unreachable.code
            how = "is there, but a lock is held" if is_held else "is away"
            log.warning("the database %s, the worker waits for it: %s", how, str(error) or "no answer")
        else:
            log.debug("the database is still away: %s", error)

    def end(self, asked: float) -> None:
        """Notes an answer to a statement that was sent at `asked`.

        An answer to an earlier statement, which arrived just before the connections broke, does not end the outage.
        """
        if self._since is not None and asked >= self._since:
            log.warning("the database is back after %.1f s", monotonic() - self._since)
            self._since = None

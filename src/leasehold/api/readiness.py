"""Whether this server reaches its database: one check for all callers, since a probe needs no token."""

import asyncio
import logging
from time import monotonic

from leasehold.api.backend import Backend
from leasehold.errors import LeaseholdError, Unreachable

log = logging.getLogger("leasehold.api")

# Seconds for which an answer is given again. The check of a prober is not older than that.
FRESH = 1.0
# Seconds for the answer of the database. All callers share a check that hangs, and a prober waits for a few seconds.
PATIENCE = 3.0


class Readiness:
    """Asks the database at most once a second, and never twice at a time, however many callers there are."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._check: asyncio.Task[None] | None = None
        self._stale_at = 0.0
        self._has_failed = False

    async def require(self) -> None:
        """Returns if the database has answered. Raises the error of the check, the same for all who share it."""
        check = self._check
        if check is None or self._is_over(check):
            check = self._check = asyncio.create_task(self._ask(), name="leasehold readiness")
            check.add_done_callback(lambda done: done.cancelled() or done.exception())  # its callers may be gone
        await asyncio.shield(check)

    def _is_over(self, check: "asyncio.Task[None]") -> bool:
        """Returns whether another check is needed. One of a loop that has ended would be awaited for ever."""
        if check.get_loop() is not asyncio.get_running_loop():
            return True
        return check.done() and (check.cancelled() or monotonic() >= self._stale_at)

    async def _ask(self) -> None:
        """Asks the database. The log gets one line for the first failure, and no more until a check has succeeded."""
        try:
            await self._look()
            self._has_failed = False
        except LeaseholdError as error:
            if not self._has_failed:
                log.warning("the server is not ready: %s", error)
            self._has_failed = True
            raise
        finally:
            self._stale_at = monotonic() + FRESH

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._backend.call(lambda catalog: catalog.store.now())
        except TimeoutError as error:
            raise Unreachable(
                f"the database has not answered within {PATIENCE:g} s. Nothing was changed.",
                fix="Check the database and the network. The next check comes by itself.",
            ) from error

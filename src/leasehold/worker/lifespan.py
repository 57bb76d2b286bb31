"""Opens the lifespan of an app around the work of one process; its value is `job.state`."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from leasehold.errors import LifespanFailed
from leasehold.worker.tracebacks import message_of

log = logging.getLogger("leasehold.worker")

OpenState = Callable[[], AbstractAsyncContextManager[Any]]


class Lifespan:
    """Opened before the first claim, and closed after the drain, both in the task of the caller."""

    def __init__(self, open_state: OpenState | None) -> None:
        self._open_state = open_state
        self._stack = AsyncExitStack()
        self._start: asyncio.Timeout | None = None
        self._is_stopped = False
        self.state: Any = None

    async def open(self) -> bool:
        """Returns False if it was stopped before it was open. Raises LifespanFailed."""
        if self._is_stopped:
            return False
        if self._open_state is None:
            return True
        start = asyncio.timeout(None)
        try:
            async with start as self._start:
                self.state = await self._stack.enter_async_context(self._open_state())
        except Exception as error:
            if start.expired() and isinstance(error, TimeoutError):
                return False
            raise LifespanFailed(
                f"the lifespan of the app failed at its start: {type(error).__name__}: {message_of(error)}. "
                "Nothing was claimed.",
                fix="Mend it. Jobs wait meanwhile, and lose no try.",
            ) from error
        finally:
            self._start = None
        return True

    def stop(self) -> None:
        """Cancels a start that is under way."""
        self._is_stopped = True
        if self._start is not None:
            self._start.reschedule(asyncio.get_running_loop().time())
            self._start = None  # a timeout that expires can't be changed once more

    async def close(self) -> None:
        """Closes it as at a normal end, so that code after `yield` runs whatever ended the work. Logs an error."""
        try:
            await self._stack.aclose()
        except Exception:
            log.exception("the lifespan of the app failed at its end; all jobs were finished or given back before")

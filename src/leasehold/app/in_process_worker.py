"""A worker in the user's own process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from leasehold.runtime.closing import close_listeners
from leasehold.runtime.supervise import wait_at_most
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.settings import LOG_LINES
from leasehold.worker.stuck import TooManyStuck

log = logging.getLogger("leasehold")

PAUSE = 5.0


@asynccontextmanager
async def run_in_process(make: Callable[[], Worker]) -> AsyncIterator[None]:
    """Runs a worker for the length of the block, then drains it, and closes its listeners.

    Raises if the first worker can't start. No supervisor would start the process again, so a worker that dies is
    replaced here. A worker that ends because too many of its handlers are stuck is not: a new one would count from 0,
    while their threads stay in this process.
    """
    worker = _InProcessWorker(make)
    running = asyncio.create_task(worker.run(), name="leasehold worker")
    joined = asyncio.create_task(worker.joined.wait())
    try:
        await asyncio.wait([running, joined], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield
    finally:
        joined.cancel()
        worker.stop()
        await asyncio.wait([running])
        if not running.cancelled() and running.exception() is not None:
            log.debug("the worker ended with %r", running.exception())
        await close_listeners(worker.listeners)


class _InProcessWorker:
    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make
        self._worker = make()
        self._stopping = asyncio.Event()
        self.joined = self._worker.joined
        self.listeners = self._worker.listeners

    def stop(self) -> None:
        self._stopping.set()
        self._worker.stop()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._worker.run()
            except TooManyStuck:
                log.error(
                    "the worker in this process has ended and is not begun again: too many of its handlers are "
                    "stuck, and only the end of the process frees their threads and tasks. Other workers run the "
                    "jobs meanwhile. Restart this process."
                )
                return
            except Exception:
                if not self.joined.is_set():
                    raise
                log.exception("the worker in this process died; it is begun again in %g s", PAUSE)
                await wait_at_most(self._stopping, PAUSE)
                self._worker = self._make()


def combine_settings(given: bool | WorkerSettings, own: WorkerSettings) -> WorkerSettings:
    """Combines the settings of a worker with those of the environment."""
    if not isinstance(given, WorkerSettings):
        return own
    notify, fallback = given.notify and own.notify, given.fallback or own.fallback
    log_lines = own.log_lines if given.log_lines == LOG_LINES else given.log_lines
    return replace(given, notify=notify, fallback=fallback, log_lines=log_lines, version=given.version or own.version)

"""Closes listeners at the end of a process, on its event loop."""

import asyncio

from leasehold.telemetry import Listeners
from leasehold.telemetry.listeners import CLOSE_TIMEOUT, warn_of_late


async def close_listeners(listeners: Listeners, timeout: float = CLOSE_TIMEOUT) -> None:
    """Closes all listeners as their `close` does, while the loop goes on: signals still reach the process.

    No thread of the loop's executor is needed, since handlers may block all of them.
    """
    closings = listeners.begin_to_close()
    if waiting := [asyncio.wrap_future(each) for each in closings]:
        await asyncio.wait(waiting, timeout=timeout)
        for each in waiting:
            each.cancel()  # its loop may be closed before its listener is
    warn_of_late(closings, timeout)

"""Runs tasks that live as long as a service does: restarts them, waits for them, cancels them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from math import inf
from random import random
from typing import Any

from leasehold.errors import RegistrationLost, Unreachable

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class RestartPolicy:
    """Decides how long to wait before the next try: each failure doubles the pause, up to `longest` seconds.

    A try that lasted longer than `lasting` seconds counts as a success, and the pauses begin at `first` again.
    """

    def __init__(self, first: float, longest: float, lasting: float = inf) -> None:
        self._first = first
        self._longest = longest
        self._lasting = lasting
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def next_pause(self, lasted: float = 0.0) -> float:
        """Returns the seconds to wait after a try that lasted so long and failed."""
        if lasted > self._lasting:
            self.reset()
        pause, self._next = self._next, min(2 * self._next, self._longest)
        return pause

    def next_random_pause(self, lasted: float = 0.0) -> float:
        """Returns the pause times a random factor from 0.5 to 1.5, so that many tries don't come at once."""
        return self.next_pause(lasted) * (0.5 + random())


def log_death(name: str, error: Exception) -> None:
    log.error("%s died and is begun again", name, exc_info=error)


def log_wait(name: str, error: Unreachable) -> None:
    log.info("%s waits for the database: %s", name, error)


def keep_running(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[RegistrationLost], None],
    died: Callable[[str, Exception], None] = log_death,
    waits: Callable[[str, Unreachable], None] = log_wait,
) -> asyncio.Task[None]:
    """Runs `work` until it is canceled, and restarts it after each error; `died` is called with the error.

    A RegistrationLost ends the task and is passed to `lost`. An Unreachable is passed to `waits`.
    """
    return asyncio.create_task(_keep_running(name, work, lost, died, waits), name=f"leasehold {name}")


async def _keep_running(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[RegistrationLost], None],
    died: Callable[[str, Exception], None],
    waits: Callable[[str, Unreachable], None],
) -> None:
    loop, policy = asyncio.get_running_loop(), RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE, lasting=LONGEST_PAUSE)
    while True:
        began = loop.time()
        try:
            return await work()
        except RegistrationLost as error:
            return lost(error)
        except Unreachable as error:
            waits(name, error)
        except Exception as error:
            if _is_canceled():  # and its cleanup failed, such as closing a dead connection
                return None
            died(name, error)
        await asyncio.sleep(policy.next_random_pause(loop.time() - began))


async def wait_for_first(*waits: Awaitable[Any]) -> None:
    """Returns when one of them ends, by a result or an error; the others are canceled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(tasks)


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Waits without asyncio.wait_for, which until Python 3.12 swallows a cancel that comes with the event."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def cancel_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_canceled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

"""Tasks that live as long as something else does: kept running, waited for, canceled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import random
from typing import Any

from leasehold.errors import RegistrationLost, Unreachable

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0


def log_death(name: str, error: Exception) -> None:
    log.error("%s died and is begun again", name, exc_info=error)


def log_wait(name: str, error: Unreachable) -> None:
    log.info("%s waits for the database: %s", name, error)


def kept(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[RegistrationLost], None],
    died: Callable[[str, Exception], None] = log_death,
    waits: Callable[[str, Unreachable], None] = log_wait,
) -> asyncio.Task[None]:
    """Runs `work` until it is canceled: what dies is begun again, and `died` is told. A lost registration ends it.

    `waits` is told of each error that says that the database is away.
    """
    return asyncio.create_task(_keep(name, work, lost, died, waits), name=f"leasehold {name}")


async def _keep(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[RegistrationLost], None],
    died: Callable[[str, Exception], None],
    waits: Callable[[str, Unreachable], None],
) -> None:
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    while True:
        began = loop.time()
        try:
            return await work()
        except RegistrationLost as error:
            return lost(error)
        except Unreachable as error:
            waits(name, error)
        except Exception as error:
            if _is_canceled():  # and what it did to clear up has failed: closing a dead connection, say
                return None
            died(name, error)
        pause = FIRST_PAUSE if loop.time() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
        await asyncio.sleep(pause * (0.5 + random()))


async def first_of(*waits: Awaitable[Any]) -> None:
    """Returns when one of them ends, however it ends; the others are canceled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await canceled(tasks)


async def canceled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_canceled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

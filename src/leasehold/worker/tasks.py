"""Tasks that live as long as something else does: kept running, waited for, canceled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import random
from typing import Any

from leasehold.errors import SeatLost, Unreachable

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0


def kept(
    name: str, work: Callable[[], Coroutine[Any, Any, None]], lost: Callable[[SeatLost], None]
) -> asyncio.Task[None]:
    """Runs `work` until it is canceled: what dies is logged and begun again. A lost seat ends it."""
    return asyncio.create_task(_keep(name, work, lost), name=f"leasehold {name}")


async def _keep(name: str, work: Callable[[], Coroutine[Any, Any, None]], lost: Callable[[SeatLost], None]) -> None:
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    while True:
        began = loop.time()
        try:
            return await work()
        except SeatLost as error:
            return lost(error)
        except Unreachable as error:
            log.info("%s waits for the database: %s", name, error)
        except Exception:
            if _is_canceled():  # and what it did to clear up has failed: closing a dead connection, say
                return None
            log.exception("%s died and is begun again", name)
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

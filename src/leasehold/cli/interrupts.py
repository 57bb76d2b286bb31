"""Runs a command's coroutine so that Ctrl-C ends it without a message from asyncio."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs like asyncio.run, but after Ctrl-C asyncio reports no futures that the interrupt abandoned.

    The driver abandons one if its connect is cancelled between the TCP handshake and the answer to its request for
    TLS: asyncio then printed "Future exception was never retrieved" below our own last line.
    """
    return asyncio.run(_quiet_when_canceled(work))


async def _quiet_when_canceled(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not task.cancelling():
            loop.default_exception_handler(context)

    loop.set_exception_handler(report)
    return await work

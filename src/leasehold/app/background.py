"""The blocking door: the app's store on a loop and a thread of its own, for callers that have none. No logic."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

from leasehold.app.opened import Opened

T = TypeVar("T")


class Background:
    """Begun at the first call, and anew in a forked child, which inherits no threads and must not use our sockets."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_store = open_store
        self._life: _Life | None = None
        self._beginning = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def submit(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> "Future[T]":
        with self._beginning:
            if self._life is None:
                self._life = _Life(self._open_store)
            return self._life.submit(ask)

    def close(self) -> None:
        with self._beginning:
            if self._life is not None:
                self._life.end()
                self._life = None

    def _forget(self) -> None:
        self._life, self._beginning = None, threading.Lock()


class _Life:
    """From a thread's start to its end."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_store = open_store
        self._opened: Opened | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="leasehold-app", daemon=True)
        self._thread.start()
        self._ready.wait()

    def submit(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(self._ask(ask), self._loop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    async def _live(self) -> None:
        self._loop, self._ending, self._opening = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
        async with AsyncExitStack() as self._stack:
            self._ready.set()
            await self._ending.wait()

    async def _ask(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> T:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(self._open_store())
        return await ask(self._opened)

"""The blocking door: the app's store on a loop and a thread of its own, for callers that have none. No logic."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar
from weakref import WeakSet

from leasehold.app.opened import Opened

T = TypeVar("T")


class Background:
    """Begun at the first call, and anew in a forked child, which inherits no threads and must not use our sockets."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_store = open_store
        self._life: _Life | None = None
        self._beginning = threading.Lock()
        _all.add(self)

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

    def forget(self) -> None:
        self._life, self._beginning = None, threading.Lock()


_all: WeakSet[Background] = WeakSet()


def _forget_all() -> None:
    for background in _all:
        background.forget()


os.register_at_fork(after_in_child=_forget_all)


class _Life:
    """From a thread's start to its end."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_store = open_store
        self._opened: Opened | None = None
        self._opening: asyncio.Task[Opened] | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="leasehold-app", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def submit(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(self._ask(ask), self._loop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop()  # may fail, and then there is nothing to run yet
                runner.run(self._live())
        except BaseException as error:  # out of files, say: whoever waits for us must not wait for ever
            self._failure = error
        finally:
            self._ready.set()

    async def _live(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as self._stack:
            self._ready.set()
            await self._ending.wait()

    async def _ask(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> T:
        """Who comes while it is being opened shares what comes of it: nobody waits in turn for what is away."""
        if self._opened is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._stack.enter_async_context(self._open_store()))
                self._opening.add_done_callback(self._has_opened)
            await asyncio.shield(self._opening)
        assert self._opened is not None
        return await ask(self._opened)

    def _has_opened(self, opening: asyncio.Task[Opened]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._opened = opening.result()

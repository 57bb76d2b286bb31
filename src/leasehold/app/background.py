"""A thread with an event loop and an open store, for callers that have no loop on which the app is open."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar
from weakref import WeakSet

from leasehold.app.open_store import OpenStore

T = TypeVar("T")
Operation = Callable[[OpenStore], Coroutine[Any, Any, T]]


class Background:
    """Starts its thread at the first call, and again in a forked child: a child inherits no threads, and must not
    use the sockets of its parent.
    """

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[OpenStore]]) -> None:
        self._open_store = open_store
        self._thread: _StoreThread | None = None
        self._starting = threading.Lock()
        _all.add(self)

    @property
    def current(self) -> OpenStore | None:
        """The store, if it is open. Other threads may use it only for calls without I/O."""
        thread = self._thread
        return None if thread is None else thread.current

    def submit(self, operation: Operation[T]) -> "Future[T]":
        with self._starting:
            if self._thread is None:
                self._thread = _StoreThread(self._open_store)
            return self._thread.submit(operation)

    def close(self) -> None:
        with self._starting:
            if self._thread is not None:
                self._thread.end()
                self._thread = None

    def forget(self) -> None:
        self._thread, self._starting = None, threading.Lock()


_all: WeakSet[Background] = WeakSet()


def _forget_all() -> None:
    for background in _all:
        background.forget()


os.register_at_fork(after_in_child=_forget_all)


class _StoreThread:
    """A thread from its start to its end. `current` is its store once that is open."""

    def __init__(self, open_store: Callable[[], AbstractAsyncContextManager[OpenStore]]) -> None:
        self.current: OpenStore | None = None
        self._open_store = open_store
        self._opening: asyncio.Task[OpenStore] | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="leasehold-app", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def submit(self, operation: Operation[T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(self._call(operation), self._loop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop()  # may fail, and then there is nothing to run yet
                runner.run(self._live())
        except BaseException as error:  # for example out of file descriptors: callers must not wait for ever
            self._failure = error
        finally:
            self._ready.set()

    async def _live(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as self._stack:
            self._ready.set()
            await self._ending.wait()

    async def _call(self, operation: Operation[T]) -> T:
        """Opens the store at the first call. Calls that come meanwhile share its result, instead of waiting in turn
        for a database that is away.
        """
        if self.current is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._stack.enter_async_context(self._open_store()))
                self._opening.add_done_callback(self._note_opened)
            await asyncio.shield(self._opening)
        assert self.current is not None
        return await operation(self.current)

    def _note_opened(self, opening: asyncio.Task[OpenStore]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self.current = opening.result()

"""How calls reach the database of an app: on the caller's loop if the app is open there, else on a thread."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, finalize, ref

from leasehold.app.background import Background, Operation
from leasehold.app.database_settings import DatabaseSettings
from leasehold.app.open_store import OpenStore, SharedStore
from leasehold.app.registry import Registry
from leasehold.engine import Engine
from leasehold.errors import BlockingCall, InvalidInput
from leasehold.model.job import NewJob
from leasehold.operations.enqueue import PreparedJobs, Target, prepare_known
from leasehold.store import Caller, Store
from leasehold.telemetry import Listeners
from leasehold.worker import Handlers

T = TypeVar("T")


class EnqueueStrategy(Protocol):
    """Acts on jobs that were just enqueued, before the enqueue returns. Tests use it to run them at once.

    `transaction` is the caller's connection if the jobs are part of its transaction. `twin` names the awaited twin
    of the verb.
    """

    def after(self, store: "AppStore", jobs: Iterable[Any], transaction: Caller | None, twin: str) -> None: ...

    async def aafter(self, store: "AppStore", jobs: Iterable[Any], transaction: Caller | None) -> None: ...


class AppStore:
    """The open stores of one app: one for each loop of `app.open()`, and one on a thread for all other callers."""

    def __init__(self, settings: DatabaseSettings, registry: Registry, listeners: Listeners | None = None) -> None:
        self.settings = settings
        self.registry = registry
        self.listeners = Listeners() if listeners is None else listeners
        self.strategy: EnqueueStrategy | None = None
        self.after_call: Callable[[], None] | None = None
        self._open_store = partial(_open_store, settings, ref(registry.handlers))
        self._shared: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedStore] = WeakKeyDictionary()
        self._background = Background(self._open_store)
        self._engine: Engine | None = None  # remembered, since within(…) needs it for each enqueue
        finalize(self, self._background.close)

    # ---------------------------------------------------------------------------------------------------------- call

    def call(self, operation: Operation[T], twin: str | None = None) -> T:
        """Blocks until the operation is done. On a running loop it raises BlockingCall and names the awaited twin.

        Without `twin` it blocks a running loop: for callers that block it anyway, with a connection of their own. A
        caller that is interrupted, as by Ctrl-C, cancels the operation.
        """
        submitted = self.submit(operation, twin)
        try:
            return submitted.result()
        except BaseException:
            submitted.cancel()
            raise
        finally:
            if self.after_call is not None:
                self.after_call()

    async def acall(self, operation: Operation[T]) -> T:
        """Awaits the operation on this loop if the app is open here, else on the thread."""
        try:
            if opened := self.store_here():
                return await operation(opened)
            return await asyncio.wrap_future(self._background.submit(operation))
        finally:
            if self.after_call is not None:
                self.after_call()

    def submit(self, operation: Operation[T], twin: str | None = None) -> "Future[T]":
        """Starts the operation on the thread."""
        if twin is not None and has_running_loop():
            raise BlockingCall(
                "this call would block the event loop that runs in this thread. Nothing was changed.",
                fix=f"Await its twin: await ….{twin}(…)",
            )
        return self._background.submit(operation)

    # ------------------------------------------------------------------------------------------- caller transactions

    def join(self, connection: object) -> Caller:
        """Wraps a caller's connection. Raises InvalidInput if the engine has no transactions that it could join."""
        if self._engine is None:
            self._engine = self.settings.engine_at()
        if not self._engine.abilities.caller_transaction:
            raise InvalidInput(
                "within(…) needs an engine whose jobs a transaction of yours can hold, and the engine of "
                f"{self._engine.address} has none. Nothing was enqueued.",
                fix="Enqueue without within(…), after your own commit; options(id=…) makes the call repeatable.",
            )
        return self._engine.join(connection)

    def prepare_known(self, target: Target, jobs: Sequence[NewJob], wakes: bool) -> PreparedJobs | None:
        """Prepares jobs in this thread if nothing has to be looked up for them; else returns None.

        Asks both stores: a blocking call on a loop where the app is open looks up by the store on the thread.
        """
        for opened in (self.store_here(), self._background.current):
            if opened is not None and (prepared := prepare_known(target, jobs, wakes, opened)) is not None:
                return prepared
        return None

    # ----------------------------------------------------------------------------------------------- open and close

    def require_closed(self) -> None:
        """Raises InvalidInput if the app is open on a loop."""
        if any(shared.current for shared in self._shared.values()):
            raise InvalidInput(
                "the app is open, and would go on with what it was opened with. Nothing was changed.",
                fix="Configure it before: async with app.open(): …",
            )

    def store_here(self) -> OpenStore | None:
        """Returns the store that is open on this loop, if any."""
        try:
            shared = self._shared.get(asyncio.get_running_loop())
        except RuntimeError:
            return None
        return shared.current if shared is not None else None

    @property
    def here(self) -> OpenStore:
        """The store that is open on this loop. Raises InvalidInput if none is."""
        opened = self.store_here()
        if opened is None:
            raise InvalidInput(
                "the app is not open on this event loop. Nothing was done.", fix="Write: async with app.open(): …"
            )
        return opened

    def use_here(self) -> AbstractAsyncContextManager[OpenStore]:
        """Opens a store on this loop for the length of the block, or shares the one that is open."""
        return self._shared_here().use()

    def lend(self, store: Store, url: str) -> None:
        """Shares a store on this loop whose owner closes it."""
        self._shared_here().current = OpenStore(store, url, self.registry.handlers)

    def _shared_here(self) -> SharedStore:
        return self._shared.setdefault(asyncio.get_running_loop(), SharedStore(self._open_store))

    def close(self) -> None:
        """Closes the store on the thread; the next call opens it again."""
        self._engine = None
        self._background.close()


def _open_store(settings: DatabaseSettings, handlers: "ref[Handlers]") -> AbstractAsyncContextManager[OpenStore]:
    """Refers to no app: a store that is open on the thread must not keep alive an app that is not used any more."""
    known = handlers()
    return settings.open(Handlers() if known is None else known)


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

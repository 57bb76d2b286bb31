"""Leasehold: what a user creates. It knows the jobs, opens the doors, and says where the database is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID
from weakref import WeakKeyDictionary, finalize, ref

from pydantic import BaseModel

from leasehold.app.access import Access, Said
from leasehold.app.background import Background
from leasehold.app.definition import ClassHandler, TypedDefinition, of_class, of_function
from leasehold.app.opened import Opened, Shared
from leasehold.app.resident import working
from leasehold.app.tenant import Enqueued, Tenant
from leasehold.config import VERSION, Settings
from leasehold.engine import Engine
from leasehold.errors import BlockingCall, InvalidInput, NoTenant, UnusableHandler
from leasehold.model.backoff import Backoff, Preset
from leasehold.model.definition import Definition, Retention
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import tenant_id
from leasehold.store import Caller, Store
from leasehold.telemetry import Observer, nobody
from leasehold.worker import Handlers, Job, Ticked, Worker, WorkerSettings, tick
from leasehold.worker.handlers import Call

log = logging.getLogger("leasehold")

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


OPTIONS = {field.name for field in fields(Definition) if field.init} - {"key", "schema"}


class Decorator(Protocol):
    """What `@app.job(…)` does to a handler. The overload for coroutines comes first: their result is awaited."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Job, P], Coroutine[Any, Any, R]], /
    ) -> TypedDefinition[P, R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Job, P], R], /) -> TypedDefinition[P, R]: ...


class Leasehold:
    """An app: its jobs, and the way to its database.

        app = Leasehold()

        @app.job(timeout="10m", max_attempts=5)
        async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int: ...

        app.tenant("acme").enqueue(sync_folder, provider_id="p_9")

    The database is `url`, or LEASEHOLD_URL, or else an embedded Postgres in `.leasehold/` that is started, migrated
    and stopped by itself. Nothing is opened before it is needed; a function as `url` is asked then. An app with
    one tenant says `Leasehold(tenant="default")` and enqueues without a door.
    """

    # Whether its doors enqueue on connections of someone else's, wherever the app itself is pointed at.
    _uses_callers_connections: ClassVar[bool] = False

    def __init__(
        self,
        url: Said | None = None,
        *,
        schema: Said | None = None,
        tenant: str | None = None,
        home: Path | str | None = None,
    ) -> None:
        self.handlers = Handlers()
        self._definitions: dict[str, TypedDefinition[..., Any]] = {}
        self._tenant = None if tenant is None else tenant_id(tenant)
        self._access = Access()
        self._access.configure(url, schema, home)
        self._open_store = partial(_open_store, self._access, ref(self.handlers))
        self._shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = WeakKeyDictionary()
        self._background = Background(self._open_store)
        self._engine: Engine | None = None  # of within(…), which is called for each enqueue
        finalize(self, self._background.close)

    def configure(self, *, url: str | None = None, schema: str | None = None, home: Path | str | None = None) -> None:
        """What is said here wins over what was said before, and over the environment. Not while the app is open."""
        if any(shared.opened for shared in self._shared.values()):
            raise InvalidInput(
                "the app is open, and would go on with what it was opened with. Nothing was changed.",
                fix="Configure it before: async with app.open(): …",
            )
        self._access.configure(url, schema, home)
        self._engine = None
        self._background.close()

    @property
    def settings(self) -> Settings:
        return self._access.settings

    # -------------------------------------------------------------------------------------------------------- define

    @overload
    def job(self, handler: Callable[Concatenate[Job, P], Coroutine[Any, Any, R]], /) -> TypedDefinition[P, R]: ...
    @overload
    def job(self, handler: Callable[Concatenate[Job, P], R], /) -> TypedDefinition[P, R]: ...
    @overload
    def job(
        self,
        handler: None = None,
        /,
        *,
        key: str | None = None,
        timeout: Duration = ...,
        max_attempts: int = ...,
        backoff: Backoff | Preset = ...,
        priority: int = ...,
        retention: Retention = ...,
        on_exhausted: Literal["dead_letter", "failed"] = ...,
        description: str = ...,
    ) -> Decorator: ...
    def job(self, handler: Callable[..., Any] | None = None, /, *, key: str | None = None, **options: Any) -> Any:
        """Makes a function a job. Its key is its name, unless given; its arguments are those after the job.

        timeout       how long one try may take, as in "10m"; default 1 hour
        max_attempts  how many tries there may be, the first included; default 5
        backoff       how long a failed one waits: Exponential() or Steps(); default 5 s, doubled up to 1 h, jittered.
                      A preset (OUTBOX, SCHEDULED, SMALL_TEAM) also sets max_attempts, unless that is given
        priority      lower runs first; default 100
        retention     how long ended jobs are kept; default 30 days, dead letters and failed ones for ever
        on_exhausted  "dead_letter" or "failed": what a job becomes when its tries are used up
        description   for people; default the first paragraph of its docstring
        """

        def decorate(handler: Callable[..., Any]) -> TypedDefinition[Any, Any]:
            name = getattr(handler, "__name__", None) if key is None else key
            if name is None or name == "<lambda>" or not callable(handler):
                raise UnusableHandler(
                    f"{handler!r} is not a function with a name of its own. Nothing was registered.",
                    fix='Write @app.job above a function; or give it a key, as in @app.job(key="sync-folder").',
                )
            return self._add(of_function(_definition(name, options), handler))

        return decorate if handler is None else decorate(handler)

    def add(self, key: str, handler: type[ClassHandler[M]], **options: Any) -> TypedDefinition[[M], Any]:
        """Registers a handler class, with `payload_model()` and `handle(payload)`. Options are those of `job`."""
        definition = of_class(_definition(key, options), handler)
        self._add(definition)
        return definition

    def definition(self, key: str) -> TypedDefinition[..., Any] | None:
        """What this app has registered under the key."""
        return self._definitions.get(key)

    def _add(self, definition: TypedDefinition[Any, Any]) -> TypedDefinition[Any, Any]:
        if (known := self._definitions.get(definition.key)) is not None:
            raise InvalidInput(
                f"two handlers have the key {definition.key!r}: the one in {known.place} and the one in "
                f"{definition.place}. Nothing was registered under it a second time.",
                fix='Rename one of them, or give it another key: @app.job(key="…").',
            )
        self.handlers.add(definition.definition, reads_json=True)(self._around(definition.call))
        self._definitions[definition.key] = definition
        return definition

    def _around(self, call: Call) -> Call:
        """What a worker calls, where an app has something to do before and after each call of a handler."""
        return call

    # ------------------------------------------------------------------------------------------------------- enqueue

    def tenant(self, tenant: str | UUID) -> Tenant:
        """The tenant's door. The tenant itself appears at its first enqueue."""
        return Tenant(tenant_id(tenant), self)

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """For apps with one tenant, `Leasehold(tenant="default")`; as `tenant(…).enqueue`."""
        return self._only_tenant("enqueue").enqueue(definition, *args, **kwargs)

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        return await self._only_tenant("aenqueue").aenqueue(definition, *args, **kwargs)

    def _only_tenant(self, verb: str) -> Tenant:
        if self._tenant is None:
            raise NoTenant(
                f"app.{verb}(…) needs a tenant. Nothing was enqueued.",
                fix=f'Write app.tenant("acme").{verb}(…); an app with one tenant says Leasehold(tenant="default").',
            )
        return Tenant(self._tenant, self)

    # ---------------------------------------------------------------------------------------------------------- open

    @asynccontextmanager
    async def open(self, *, worker: bool | WorkerSettings = False) -> AsyncIterator["Leasehold"]:
        """Opens the app on this event loop, for as long as the block lasts; with `worker`, it runs jobs here too.

        Doors work without it as well, over a thread of its own. At the end of the block the worker drains: running
        jobs have their grace to end, the rest is given back at no cost.
        """
        loop = asyncio.get_running_loop()
        shared = self._shared.setdefault(loop, Shared(self._open_store))
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(shared.used())
            if worker:
                if not self.settings.url:
                    log.info(
                        "LEASEHOLD_URL is not set: this worker runs the jobs of %s", self.settings.home.resolve()
                    )
                make = partial(self._make_worker, worker, opened.url)
                await stack.enter_async_context(working(make))
            yield self

    def tick(self, max_jobs: int = 100, max_seconds: Duration = 10.0, *, slots: int = 10) -> Ticked:
        """Runs what is due, here and now, and returns: for a cron, a serverless function or a test.

        Claims of workers that are gone are taken from them; then up to `max_jobs` are run, `slots` at once, those
        included that come up meanwhile. After `max_seconds` nothing more is claimed, and what still runs is stopped
        and given back at no cost, which takes a moment more (a coroutine may clean up for up to 5 s). A handler in a
        thread can't be stopped: it goes on unheard while another may run its job. Any number may tick at once, beside
        workers or without them. Whoever is killed in the middle loses its jobs to others after 15 s.
        """
        if _has_a_running_loop():
            raise BlockingCall(
                "this call would block the event loop that runs in this thread. Nothing was run.",
                fix="Await its twin: await app.atick(…)",
            )
        return asyncio.run(self.atick(max_jobs, max_seconds, slots=slots))

    async def atick(self, max_jobs: int = 100, max_seconds: Duration = 10.0, *, slots: int = 10) -> Ticked:
        settings, seconds = replace(self.worker_settings(), slots=slots), read_duration(max_seconds).total_seconds()
        async with self.open():
            opened = self._opened_here()
            assert opened is not None
            again = partial(self._access.open_at, opened.url)
            return await tick(opened.store, again, self.handlers, settings, max_jobs, seconds)

    @property
    def store(self) -> Store:
        """The open store, on the loop of `open()`: what administrators can do."""
        opened = self._opened_here()
        if opened is None:
            raise InvalidInput(
                "the app is not open on this event loop. Nothing was done.", fix="Write: async with app.open(): …"
            )
        return opened.store

    def database(self) -> AbstractContextManager[str]:
        """The URL of the database. An embedded one runs, its schema up to date, for as long as the block lasts."""
        return self._access.database()

    def close(self) -> None:
        """Ends what blocking calls have opened; the next one opens it again. The end of the process does it too."""
        self._background.close()

    def worker_settings(self) -> WorkerSettings:
        settings = self.settings
        return WorkerSettings(notify=settings.notify, fallback=settings.fallback, version=VERSION)

    def make_worker(self, url: str, settings: WorkerSettings, observe: Observer = nobody) -> Worker:
        """A worker for a process of its own, on whose loop the app is open for its handlers."""

        async def open_and_lend() -> Store:
            store = await self._access.open_at(url)
            shared = self._shared.setdefault(asyncio.get_running_loop(), Shared(self._open_store))
            shared.opened = Opened(store, url, self.handlers)
            return store

        return Worker(open_and_lend, self.handlers, settings, observe)

    def _make_worker(self, how: bool | WorkerSettings, url: str) -> Worker:
        """The environment's word counts beside what was said about the worker."""
        own = self.worker_settings()
        if isinstance(how, WorkerSettings):
            notify, fallback = how.notify and own.notify, how.fallback or own.fallback
            own = replace(how, notify=notify, fallback=fallback, version=how.version or own.version)
        return Worker(partial(self._access.open_at, url), self.handlers, own)

    # ------------------------------------------------------------------------------------------------ for its doors

    def _join(self, connection: object) -> Caller:
        """Wraps a caller's connection. Raises InvalidInput if the engine has no transactions that it could join."""
        if self._engine is None:
            self._engine = self._access.engine_at()
        if not self._engine.abilities.caller_transaction:
            raise InvalidInput(
                "within(…) needs an engine whose jobs a transaction of yours can hold, and the engine of "
                f"{self._engine.url.partition('://')[0]}:// has none. Nothing was enqueued.",
                fix="Enqueue without within(…), after your own commit; options(id=…) makes the call repeatable.",
            )
        return self._engine.join(connection)

    async def _ask(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> T:
        """On this loop where the app is open, else in the background, which opens it there for good."""
        if opened := self._opened_here():
            return await ask(opened)
        return await asyncio.wrap_future(self._background.submit(ask))

    def _begin(self, ask: Callable[[Opened], Coroutine[Any, Any, T]], instead: str) -> "Future[T]":
        """In the background, for a caller that will wait for it."""
        if _has_a_running_loop():
            raise BlockingCall(
                "this call would block the event loop that runs in this thread. Nothing was changed.",
                fix=f"Await its twin: await ….{instead}(…)",
            )
        return self._background.submit(ask)

    def _wait(self, ask: Callable[[Opened], Coroutine[Any, Any, T]], instead: str) -> T:
        return _result_of(self._begin(ask, instead))

    def _block(self, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> T:
        """Even on a running loop: for who blocks it anyway, with a session of its own."""
        return _result_of(self._background.submit(ask))

    def _opened_here(self) -> Opened | None:
        try:
            shared = self._shared.get(asyncio.get_running_loop())
        except RuntimeError:
            return None
        return shared.opened if shared is not None else None


def _open_store(access: Access, handlers: "ref[Handlers]") -> AbstractAsyncContextManager[Opened]:
    """Knows no app: what is opened in the background must not keep alive an app that nobody else has any more."""
    known = handlers()
    return access.open(Handlers() if known is None else known)


def _result_of(asked: "Future[T]") -> T:
    """Whoever is interrupted while waiting, as by Ctrl-C, takes the call back."""
    try:
        return asked.result()
    except BaseException:
        asked.cancel()
        raise


def _has_a_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _definition(key: str, options: Mapping[str, Any]) -> Definition:
    for name in options.keys() - OPTIONS:
        near = get_close_matches(name, OPTIONS, n=1)
        raise InvalidInput(
            f'{key}: a job has no option "{name}".' + (f' Did you mean "{near[0]}"?' if near else ""),
            fix=f"Nothing was registered. Options are: {', '.join(sorted(OPTIONS))}.",
        )
    if isinstance(preset := options.get("backoff"), Preset):
        options = {"max_attempts": preset.max_attempts, **options, "backoff": preset.backoff}
    return Definition(key, **options)

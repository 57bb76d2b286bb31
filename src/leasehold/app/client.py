"""Leasehold, the app that a user creates: registers jobs, opens stores, makes tenant handles and workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from pydantic import BaseModel

from leasehold.app.app_store import AppStore, EnqueueStrategy, has_running_loop
from leasehold.app.commands import CommandVerbs
from leasehold.app.database_settings import DatabaseSettings, SettingValue
from leasehold.app.definition import ClassHandler, TypedDefinition, of_class, of_function
from leasehold.app.enqueued import Enqueued
from leasehold.app.http_verbs import HttpVerbs
from leasehold.app.in_process_worker import combine_settings, run_in_process
from leasehold.app.lifespan import require_lifespan
from leasehold.app.metric_verbs import MetricVerbs
from leasehold.app.processes import make_processes
from leasehold.app.registry import Registry, definition_of, isolation_of
from leasehold.app.service_verbs import ServiceVerbs
from leasehold.app.tenant import Tenant
from leasehold.app.trigger_verbs import TriggerVerbs
from leasehold.app.triggers import TenantTriggers
from leasehold.config import Settings
from leasehold.errors import BlockingCall, NoTenant, UnusableHandler
from leasehold.model.audit import Actor
from leasehold.model.backoff import Backoff, Preset
from leasehold.model.definition import Retention
from leasehold.model.duration import Duration, read_duration
from leasehold.model.event_plan import Emitted
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.trigger import ALL, AllTenants
from leasehold.scheduler import FireLoop, fire_due_schedules
from leasehold.store import Store
from leasehold.telemetry import Listeners, Observer, ignore_events
from leasehold.worker import Job, Ticked, Worker, WorkerSettings, tick
from leasehold.worker.handlers import Call
from leasehold.worker.job import NOT_OPENED
from leasehold.worker.lifespan import OpenState

if TYPE_CHECKING:
    from leasehold.api import Backend

log = logging.getLogger("leasehold")

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=TypedDefinition[..., Any])


class Decorator(Protocol):
    """The decorator that `@app.job(…)` returns. The overload for coroutines comes first: their result is awaited."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Job, P], Coroutine[Any, Any, R]], /
    ) -> TypedDefinition[P, R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Job, P], R], /) -> TypedDefinition[P, R]: ...


class Leasehold(CommandVerbs, TriggerVerbs, HttpVerbs, ServiceVerbs, MetricVerbs):
    """An app: its jobs, its database, its tenants.

        app = Leasehold()

        @app.job(timeout="10m", max_attempts=5)
        async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int: ...

        app.tenant("acme").enqueue(sync_folder, provider_id="p_9")

    The database is `url`, or LEASEHOLD_URL, or else an embedded Postgres in `.leasehold/` that is started, migrated
    and stopped by itself. Nothing is opened before it is needed; a function as `url` is asked then. An app with
    one tenant says `Leasehold(tenant="default")` and enqueues by `app.enqueue(…)`.

    `lifespan` is a function of the app that returns an async context manager. Each worker process opens it before its
    first claim and closes it after its last job; its value is `job.state`.

    `observe` gets the events of producers, workers and schedulers of this app; `app.observe(…)` adds more listeners.
    """

    # Whether its tenant handles enqueue on connections of a framework, independent of this app's URL.
    uses_callers_connections: ClassVar[bool] = False
    # Where another process finds this app, as in `shop.app:app`; None: it is looked up among the loaded modules.
    process_target: str | None = None

    def __init__(
        self,
        url: SettingValue | None = None,
        *,
        schema: SettingValue | None = None,
        tenant: str | None = None,
        home: Path | str | None = None,
        lifespan: "Callable[[Leasehold], AbstractAsyncContextManager[Any]] | None" = None,
        observe: Observer = ignore_events,
    ) -> None:
        self.lifespan = require_lifespan(lifespan)
        self._state: Any = NOT_OPENED
        self._registry = Registry()
        self.handlers = self._registry.handlers
        self._tenant = None if tenant is None else tenant_id(tenant)
        self._database = DatabaseSettings()
        self._database.configure(url, schema, home)
        self.listeners = Listeners([observe])
        self._store = AppStore(self._database, self._registry, self.listeners)

    def configure(self, *, url: str | None = None, schema: str | None = None, home: Path | str | None = None) -> None:
        """Sets the database; wins over earlier settings and over the environment. Not while the app is open."""
        self._store.require_closed()
        self._database.configure(url, schema, home)
        self._store.close()

    @contextmanager
    def override(
        self,
        *,
        url: str | None = None,
        schema: str | None = None,
        enqueue: EnqueueStrategy | None = None,
        state: Any = NOT_OPENED,
    ) -> Iterator[None]:
        """Uses another database, acts after each enqueue, or sets `job.state`, within the block. For tests.

        A URL or schema can't be overridden while the app is open. With a `state`, workers of this process do not open
        the lifespan. Values that are not given stay as they are.
        """
        before, state_before = self._store.strategy, self._state
        with ExitStack() as stack:
            if url is not None or schema is not None:
                self._store.require_closed()
                stack.enter_context(self._database.override(url, schema))
                stack.callback(self._store.close)
                self._store.close()
            self._store.strategy = before if enqueue is None else enqueue
            self._state = state_before if state is NOT_OPENED else state
            try:
                yield
            finally:
                self._store.strategy, self._state = before, state_before

    def open_state(self) -> OpenState | None:
        """Returns the function by which a worker opens `job.state`; None if there is none to open."""
        if self._state is not NOT_OPENED:
            return partial(nullcontext, self._state)
        return None if self.lifespan is None else partial(self.lifespan, self)

    @property
    def state_without_worker(self) -> Any:
        """The state of a job that is called without a worker: as overridden, or None if the app has no lifespan."""
        return None if self._state is NOT_OPENED and self.lifespan is None else self._state

    @property
    def settings(self) -> Settings:
        return self._database.settings

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
        durable_claims: bool = ...,
        description: str = ...,
        isolation: Literal["process"] | None = ...,
        memory: str | int | None = ...,
    ) -> Decorator: ...
    def job(self, handler: Callable[..., Any] | None = None, /, *, key: str | None = None, **options: Any) -> Any:
        """Makes a function a job. Its key is its name, unless given; its arguments are those after the job.

        timeout       how long one try may take, as in "10m"; default 1 hour
        max_attempts  how many tries a job has, the first included; default 5
        backoff       how long a failed job waits: Exponential() or Steps(); default 5 s, doubled up to 1 h, jittered.
                      A preset (OUTBOX, SCHEDULED, SMALL_TEAM) also sets max_attempts, unless that is given
        priority      lower runs first; default 100
        retention     how long ended jobs are kept; default 30 days, dead letters and failed jobs for ever
        on_exhausted  "dead_letter" or "failed": the status of a job when its tries are used up
        durable_claims  True: a claim is on disk before its handler starts, at the cost of one commit more
        description   for people; default the first paragraph of its docstring
        isolation     "process": it runs in a process of its own, which a timeout or a cancel can end
        memory        how much such a process may allocate, as in "512MB"
        """
        isolation, options = isolation_of(options)

        def decorate(handler: Callable[..., Any]) -> TypedDefinition[Any, Any]:
            name = getattr(handler, "__name__", None) if key is None else key
            if name is None or name == "<lambda>" or not callable(handler):
                raise UnusableHandler(
                    f"{handler!r} is not a function with a name of its own. Nothing was registered.",
                    fix='Write @app.job above a function; or give it a key, as in @app.job(key="sync-folder").',
                )
            definition = of_function(definition_of(name, options), handler)
            self._registry.add(definition, self._wrap, isolation)
            return definition

        return decorate if handler is None else decorate(handler)

    def add(self, key: str, handler: type[ClassHandler[M]], **options: Any) -> TypedDefinition[[M], Any]:
        """Registers a handler class, with `payload_model()` and `handle(payload)`. Options are those of `job`."""
        isolation, options = isolation_of(options)
        definition = of_class(definition_of(key, options), handler)
        self._registry.add(definition, self._wrap, isolation)
        return definition

    def definition(self, key: str) -> TypedDefinition[..., Any] | None:
        """Returns the definition that this app has registered under the key."""
        return self._registry.get(key)

    def _wrap(self, call: Call) -> Call:
        """Returns the function that workers call for a handler. Frameworks act before and after each call."""
        return call

    # ------------------------------------------------------------------------------------------------------- enqueue

    def tenant(self, tenant: str | UUID) -> Tenant:
        """Returns a tenant handle. The tenant itself is created at its first enqueue."""
        return Tenant(tenant_id(tenant), self._store)

    @property
    def triggers(self) -> TenantTriggers:
        """The triggers for all tenants, new ones included. Those of a tenant: `app.tenant("acme").triggers`."""
        return self.triggers_of(ALL)

    def triggers_of(self, owner: TenantId | AllTenants, actor: Actor | None = None) -> TenantTriggers:
        """Returns the triggers of an owner. With an actor, the audit log names who changes them."""
        return TenantTriggers(owner, self._store, actor)

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueues for the only tenant of the app, `Leasehold(tenant="default")`; like `tenant(…).enqueue`."""
        return self._only_tenant("enqueue").enqueue(definition, *args, **kwargs)

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        return await self._only_tenant("aenqueue").aenqueue(definition, *args, **kwargs)

    def emit(self, name: str, data: Mapping[str, Any] | None = None) -> Emitted:
        """Emits an event of the only tenant of the app; like `tenant(…).emit`."""
        return self._only_tenant("emit").emit(name, data)

    async def aemit(self, name: str, data: Mapping[str, Any] | None = None) -> Emitted:
        return await self._only_tenant("aemit").aemit(name, data)

    def _only_tenant(self, verb: str) -> Tenant:
        if self._tenant is None:
            raise NoTenant(
                f"app.{verb}(…) needs a tenant. Nothing was enqueued.",
                fix=f'Write app.tenant("acme").{verb}(…); an app with one tenant says Leasehold(tenant="default").',
            )
        return Tenant(self._tenant, self._store)

    # ---------------------------------------------------------------------------------------------------------- open

    @asynccontextmanager
    async def open(
        self, *, worker: bool | WorkerSettings = False, scheduler: bool = True
    ) -> AsyncIterator["Leasehold"]:
        """Opens the app on this event loop for the length of the block; with `worker`, it runs jobs here too, and
        fires schedules unless `scheduler` is False.

        Tenant handles also work without it, on a thread of their own. At the end of the block the worker drains:
        running jobs have their grace to end, the rest is given back and uses no try.
        """
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(self._store.use_here())
            if worker:
                if not self.settings.url:
                    log.info(
                        "LEASEHOLD_URL is not set: this worker runs the jobs of %s", self.settings.home.resolve()
                    )
                open_again = partial(self._database.open_at, opened.url)
                settings = combine_settings(worker, self.worker_settings())
                await stack.enter_async_context(
                    run_in_process(
                        lambda: Worker(
                            open_again,
                            self.handlers,
                            settings,
                            Listeners(self.listeners),
                            make_schedules=partial(FireLoop, listeners=self.listeners) if scheduler else None,
                            open_state=self.open_state(),
                            processes=make_processes(self, opened.url, settings),
                        )
                    )
                )
            yield self

    def tick(
        self,
        max_jobs: int = 100,
        max_seconds: Duration = 10.0,
        *,
        slots: int = 10,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        tenants: Sequence[str] | None = None,
    ) -> Ticked:
        """Runs due jobs, here and now, and returns: for a cron, a serverless function or a test.

        Reclaims the jobs of dead workers, and fires schedules that are due; then runs up to `max_jobs`, `slots` at
        once, jobs that become due meanwhile included. After `max_seconds` it claims nothing more; running jobs are
        stopped and given back, which uses no try and takes a moment (a coroutine may clean up for up to 5 s). A
        handler in a thread can't be stopped: it goes on without effect while another worker may run its job. Any
        number of processes may tick at once, beside workers or without them. If a process is killed in the middle,
        others get its jobs after 15 s. `only`, `exclude` and `tenants` select jobs as they do in `WorkerSettings`.
        """
        if has_running_loop():
            raise BlockingCall(
                "this call would block the event loop that runs in this thread. Nothing was run.",
                fix="Await its twin: await app.atick(…)",
            )
        ticking = self.atick(max_jobs, max_seconds, slots=slots, only=only, exclude=exclude, tenants=tenants)
        return asyncio.run(ticking)

    async def atick(
        self,
        max_jobs: int = 100,
        max_seconds: Duration = 10.0,
        *,
        slots: int = 10,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        tenants: Sequence[str] | None = None,
    ) -> Ticked:
        selected: dict[str, Any] = {"only": only, "exclude": exclude, "tenants": tenants}
        settings = replace(self.worker_settings(), slots=slots, **selected)
        seconds = read_duration(max_seconds).total_seconds()
        async with self.open():
            opened = self._store.here
            again = partial(self._database.open_at, opened.url)
            fire = partial(fire_due_schedules, listeners=self.listeners)
            return await tick(
                *(opened.store, again, self.handlers, settings, max_jobs, seconds, fire),
                open_state=self.open_state(),
                processes=make_processes(self, opened.url, settings),
                listeners=self.listeners,
            )

    def _backend(self, statement: timedelta) -> "Backend":
        from leasehold.app.api_backend import ApiBackend

        return ApiBackend(self._database, self._registry, statement, self.atick, self.counts(), self.listeners)

    @property
    def store(self) -> Store:
        """The open store, on the loop of `open()`: everything that administrators can do."""
        return self._store.here.store

    def database(self) -> AbstractContextManager[str]:
        """Yields the database's URL. An embedded one runs, its schema up to date, for the length of the block."""
        return self._database.database()

    def close(self) -> None:
        """Closes the store of blocking calls; the next call opens it again. The end of the process closes it, too."""
        self._store.close()

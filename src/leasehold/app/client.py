"""Leasehold, the app that a user creates: registers jobs, opens stores, makes tenant handles and workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from pydantic import BaseModel

from leasehold.app.app_store import AppStore, EnqueueStrategy, has_running_loop
from leasehold.app.database_settings import DatabaseSettings, SettingValue
from leasehold.app.definition import ClassHandler, TypedDefinition, of_class, of_function
from leasehold.app.enqueued import Enqueued
from leasehold.app.in_process_worker import combine_settings, run_in_process
from leasehold.app.registry import Registry, definition_of
from leasehold.app.tenant import Tenant
from leasehold.app.triggers import TenantTriggers, declared_trigger, read_owner
from leasehold.config import VERSION, Settings
from leasehold.errors import BlockingCall, NoTenant, UnusableHandler
from leasehold.model.backoff import Backoff, Preset
from leasehold.model.definition import Retention
from leasehold.model.duration import Duration, read_duration
from leasehold.model.event_plan import Emitted
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.schedule import DEFAULT_CAP, Schedule
from leasehold.model.trigger import ALL, AllTenants
from leasehold.scheduler import FireLoop, Scheduler, SchedulerSettings, fire_due_schedules
from leasehold.store import Store
from leasehold.telemetry import Observer, ignore_events
from leasehold.worker import Job, Ticked, Worker, WorkerSettings, tick
from leasehold.worker.handlers import Call

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


class Leasehold:
    """An app: its jobs, its database, its tenants.

        app = Leasehold()

        @app.job(timeout="10m", max_attempts=5)
        async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int: ...

        app.tenant("acme").enqueue(sync_folder, provider_id="p_9")

    The database is `url`, or LEASEHOLD_URL, or else an embedded Postgres in `.leasehold/` that is started, migrated
    and stopped by itself. Nothing is opened before it is needed; a function as `url` is asked then. An app with
    one tenant says `Leasehold(tenant="default")` and enqueues by `app.enqueue(…)`.
    """

    # Whether its tenant handles enqueue on connections of a framework, independent of this app's URL.
    uses_callers_connections: ClassVar[bool] = False

    def __init__(
        self,
        url: SettingValue | None = None,
        *,
        schema: SettingValue | None = None,
        tenant: str | None = None,
        home: Path | str | None = None,
    ) -> None:
        self._registry = Registry()
        self.handlers = self._registry.handlers
        self._tenant = None if tenant is None else tenant_id(tenant)
        self._database = DatabaseSettings()
        self._database.configure(url, schema, home)
        self._store = AppStore(self._database, self._registry)

    def configure(self, *, url: str | None = None, schema: str | None = None, home: Path | str | None = None) -> None:
        """Sets the database; wins over earlier settings and over the environment. Not while the app is open."""
        self._store.require_closed()
        self._database.configure(url, schema, home)
        self._store.close()

    @contextmanager
    def override(
        self, *, url: str | None = None, schema: str | None = None, enqueue: EnqueueStrategy | None = None
    ) -> Iterator[None]:
        """Uses another database, or acts after each enqueue, for the length of the block. For tests.

        A URL or schema can't be overridden while the app is open. Values that are not given stay as they are.
        """
        before = self._store.strategy
        with ExitStack() as stack:
            if url is not None or schema is not None:
                self._store.require_closed()
                stack.enter_context(self._database.override(url, schema))
                stack.callback(self._store.close)
                self._store.close()
            self._store.strategy = before if enqueue is None else enqueue
            try:
                yield
            finally:
                self._store.strategy = before

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
        """

        def decorate(handler: Callable[..., Any]) -> TypedDefinition[Any, Any]:
            name = getattr(handler, "__name__", None) if key is None else key
            if name is None or name == "<lambda>" or not callable(handler):
                raise UnusableHandler(
                    f"{handler!r} is not a function with a name of its own. Nothing was registered.",
                    fix='Write @app.job above a function; or give it a key, as in @app.job(key="sync-folder").',
                )
            definition = of_function(definition_of(name, options), handler)
            self._registry.add(definition, self._wrap)
            return definition

        return decorate if handler is None else decorate(handler)

    def add(self, key: str, handler: type[ClassHandler[M]], **options: Any) -> TypedDefinition[[M], Any]:
        """Registers a handler class, with `payload_model()` and `handle(payload)`. Options are those of `job`."""
        definition = of_class(definition_of(key, options), handler)
        self._registry.add(definition, self._wrap)
        return definition

    def schedule(
        self,
        schedule: str | Schedule,
        *,
        zone: str | None = None,
        tenant: str | UUID | AllTenants | None = None,
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        enabled: bool = True,
        catch_up: Literal["skip", "latest", "all"] = "latest",
        catch_up_cap: int = DEFAULT_CAP,
        spread: Duration = 0,
    ) -> Callable[[D], D]:
        """Enqueues a job by the clock. Write it above `@app.job`, once for each schedule:

            @app.schedule("0 2 * * *", zone="Europe/Berlin", tenant="acme", payload={"path": "/"})
            @app.job
            async def sync_folder(job: Job, path: str) -> int: ...

        Workers save it when they start, and remove it when the code declares it no longer. It is known by tenant and
        label, by default the key of the definition. `tenant=ALL` is for all tenants, those of the future included;
        an app with one tenant may leave it out.
        """
        owner = self._only_tenant("schedule").id if tenant is None else read_owner(tenant)
        options: dict[str, Any] = {
            "schedule": schedule,
            "zone": zone,
            "payload": payload,
            "label": label,
            "enabled": enabled,
            "catch_up": catch_up,
            "catch_up_cap": catch_up_cap,
            "spread": spread,
        }

        return partial(self._declare, "schedule", owner, options)

    def on(
        self,
        event: str,
        *,
        tenant: str | UUID | AllTenants | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        enabled: bool = True,
        dedupe_window: Duration | None = None,
        trailing: bool = False,
    ) -> Callable[[D], D]:
        """Enqueues a job for each event of this name, or of those that `provider.*` selects. Write it above
        `@app.job`, once for each trigger:

            @app.on("provider.folder.updated", tenant="acme", payload={"path": "{{event.folder_path}}"})
            @app.job
            async def sync_folder(job: Job, path: str) -> int: ...

        It is saved, known and removed as with `@app.schedule`. Its default label has the key and the event.
        """
        owner = self._only_tenant("on").id if tenant is None else read_owner(tenant)
        options: dict[str, Any] = {
            "event": event,
            "filter": filter,
            "payload": payload,
            "label": label,
            "enabled": enabled,
            "dedupe_window": dedupe_window,
            "trailing": trailing,
        }
        return partial(self._declare, "on", owner, options)

    def _declare(self, verb: str, owner: TenantId | AllTenants, options: Mapping[str, Any], definition: D) -> D:
        self.handlers.declare(declared_trigger(verb, owner, options, definition))
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

    def triggers_of(self, owner: TenantId | AllTenants) -> TenantTriggers:
        return TenantTriggers(owner, self._store)

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
                await stack.enter_async_context(
                    run_in_process(
                        lambda: Worker(
                            open_again,
                            self.handlers,
                            combine_settings(worker, self.worker_settings()),
                            make_schedules=FireLoop if scheduler else None,
                        )
                    )
                )
            yield self

    def tick(self, max_jobs: int = 100, max_seconds: Duration = 10.0, *, slots: int = 10) -> Ticked:
        """Runs due jobs, here and now, and returns: for a cron, a serverless function or a test.

        Reclaims the jobs of dead workers, and fires schedules that are due; then runs up to `max_jobs`, `slots` at
        once, jobs that become due meanwhile included. After `max_seconds` it claims nothing more; running jobs are
        stopped and given back, which uses no try and takes a moment (a coroutine may clean up for up to 5 s). A
        handler in a thread can't be stopped: it goes on without effect while another worker may run its job. Any
        number of processes may tick at once, beside workers or without them. If a process is killed in the middle,
        others get its jobs after 15 s.
        """
        if has_running_loop():
            raise BlockingCall(
                "this call would block the event loop that runs in this thread. Nothing was run.",
                fix="Await its twin: await app.atick(…)",
            )
        return asyncio.run(self.atick(max_jobs, max_seconds, slots=slots))

    async def atick(self, max_jobs: int = 100, max_seconds: Duration = 10.0, *, slots: int = 10) -> Ticked:
        settings, seconds = replace(self.worker_settings(), slots=slots), read_duration(max_seconds).total_seconds()
        async with self.open():
            opened = self._store.here
            again = partial(self._database.open_at, opened.url)
            return await tick(opened.store, again, self.handlers, settings, max_jobs, seconds, fire_due_schedules)

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

    def worker_settings(self) -> WorkerSettings:
        settings = self.settings
        return WorkerSettings(notify=settings.notify, fallback=settings.fallback, version=VERSION)

    def make_worker(
        self, url: str, settings: WorkerSettings, observe: Observer = ignore_events, *, scheduler: bool = True
    ) -> Worker:
        """Makes a worker for a process of its own, on whose loop the app is open for its handlers."""

        async def open_and_lend() -> Store:
            store = await self._database.open_at(url)
            self._store.lend(store, url)
            return store

        make_schedules = FireLoop if scheduler else None
        return Worker(open_and_lend, self.handlers, settings, observe, make_schedules)

    def make_scheduler(self, url: str, observe: Observer = ignore_events) -> Scheduler:
        """Makes a scheduler for a process of its own: it fires schedules, and runs no jobs."""
        settings = self.settings
        own = SchedulerSettings(settings.notify, settings.fallback)
        return Scheduler(partial(self._database.open_at, url), own, observe)

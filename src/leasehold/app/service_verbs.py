"""How an app is observed, and how its workers and schedulers are made."""

from abc import ABC, abstractmethod
from functools import partial
from typing import TypeVar

from leasehold.app.app_store import AppStore
from leasehold.app.database_settings import DatabaseSettings
from leasehold.app.processes import make_processes
from leasehold.config import VERSION, Settings
from leasehold.scheduler import FireLoop, Scheduler, SchedulerSettings
from leasehold.store import Store
from leasehold.telemetry import Listeners, Observer, ignore_events
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.handlers import Handlers
from leasehold.worker.lifespan import OpenState

L = TypeVar("L", bound=Observer)


class ServiceVerbs(ABC):
    handlers: Handlers
    listeners: Listeners
    process_target: str | None
    _database: DatabaseSettings
    _store: AppStore

    @property
    @abstractmethod
    def settings(self) -> Settings: ...

    @abstractmethod
    def open_state(self) -> OpenState | None: ...

    def observe(self, listener: L) -> L:
        """Adds a listener to the events of this app's producers, workers and schedulers, before those start.

            @app.observe
            def print_event(event: Event) -> None: ...

        A function gets all events. A `leasehold.telemetry.Listener` gets those that it wants. An exception of a
        listener is logged once, and disturbs nothing else.
        """
        self.listeners.add(listener)
        return listener

    def worker_settings(self) -> WorkerSettings:
        settings = self.settings
        return WorkerSettings(
            notify=settings.notify, fallback=settings.fallback, log_lines=settings.log_lines, version=VERSION
        )

    def make_worker(
        self, url: str, settings: WorkerSettings, observe: Observer = ignore_events, *, scheduler: bool = True
    ) -> Worker:
        """Makes a worker for a process of its own, on whose loop the app is open for its handlers.

        Its events go to `observe` and to the app's listeners.
        """

        async def open_and_lend() -> Store:
            store = await self._database.open_at(url)
            self._store.lend(store, url)
            return store

        listeners = self.listeners.with_listener(observe)
        make_schedules = partial(FireLoop, listeners=listeners) if scheduler else None
        processes = make_processes(self, url, settings)
        return Worker(open_and_lend, self.handlers, settings, listeners, make_schedules, self.open_state(), processes)

    def make_scheduler(self, url: str, observe: Observer = ignore_events) -> Scheduler:
        """Makes a scheduler for a process of its own: it fires schedules, and runs no jobs."""
        settings = self.settings
        own = SchedulerSettings(settings.notify, settings.fallback)
        return Scheduler(partial(self._database.open_at, url), own, self.listeners.with_listener(observe))

"""The app as its HTTP API sees it: a store of its own, with a shorter time limit for statements."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, TypeVar

from leasehold.api.backend import Tick
from leasehold.app.app_store import AppStore
from leasehold.app.database_settings import DatabaseSettings, LimitedSettings
from leasehold.app.open_store import OpenStore
from leasehold.app.process_status import FleetFigures, MetricsCollector, render_once
from leasehold.app.registry import Registry
from leasehold.engine import Finding
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.operations.catalog import Catalog
from leasehold.operations.enqueue import CodeDefinition
from leasehold.store import Store
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics

T = TypeVar("T")


class ApiBackend:
    def __init__(
        self,
        settings: DatabaseSettings,
        registry: Registry,
        statement_timeout: timedelta,
        tick: Tick,
        counts: Metrics,
        listeners: Listeners,
    ) -> None:
        self._registry = registry
        self._store = AppStore(LimitedSettings(settings, statement_timeout), registry, listeners)
        self._tick = tick
        self._counts = counts

    @property
    def tick(self) -> Tick | None:
        return self._tick if self._registry.handlers.keys else None

    @property
    def current_store(self) -> Store | None:
        opened = self._store.store_here()
        return None if opened is None else opened.store

    def use_here(self) -> AbstractAsyncContextManager[OpenStore]:
        return self._store.use_here()

    async def call(self, operation: Callable[[Catalog], Coroutine[Any, Any, T]]) -> T:
        return await self._store.acall(operation)

    async def examine(self) -> Sequence[Finding]:
        return await self._store.acall(self._examine)

    async def _examine(self, opened: OpenStore) -> Sequence[Finding]:
        engine = self._store.settings.engine_at(opened.url)
        return [finding async for finding in engine.examine()]

    @property
    def listeners(self) -> Listeners:
        return self._store.listeners

    def metrics_text(self, fleet: FleetSnapshot | None, accept: str) -> tuple[str, bytes]:
        return render_once(MetricsCollector(self._counts, FleetFigures(lambda: fleet)), accept)

    def code(self, key: str) -> CodeDefinition | None:
        return self._registry.get(key)

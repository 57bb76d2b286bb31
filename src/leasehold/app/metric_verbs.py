"""The metrics of an app, for a registry of prometheus-client that its process has already."""

from abc import ABC
from concurrent.futures import Future

from leasehold.app.app_store import AppStore, has_running_loop
from leasehold.app.open_store import OpenStore
from leasehold.app.process_status import FLEET_PATIENCE, FleetFigures, MetricsCollector
from leasehold.config import Settings
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.operations.fleet import read_fleet
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics


class MetricVerbs(ABC):
    """The part of an app that counts."""

    listeners: Listeners
    _store: AppStore
    _counts: Metrics | None = None

    @property
    def settings(self) -> Settings:
        raise NotImplementedError

    def counts(self) -> Metrics:
        """Returns what the producers, workers and schedulers of this app have counted since the first call."""
        if self._counts is None:
            self._counts = Metrics(self.settings.metrics_tenants, self.settings.metrics_definitions)
            self.listeners.add(self._counts)
        return self._counts

    def metrics(self) -> MetricsCollector:
        """Returns a collector for your own registry: `REGISTRY.register(app.metrics())`. Needs `leasehold[metrics]`.

        Call it before workers and schedulers of the app begin: it counts from then on. A read asks the database for
        the figures of the fleet, for at most 3 s. A read on an event loop does not wait, and has those of the read
        before.
        """
        return MetricsCollector(self.counts(), FleetFigures(_FleetQuestion(self._store)))


class _FleetQuestion:
    """Asks for the figures of the fleet on the thread of the app's store."""

    def __init__(self, store: AppStore) -> None:
        self._store = store
        self._asked: Future[FleetSnapshot | None] | None = None

    def __call__(self) -> FleetSnapshot | None:
        """Returns the figures; on an event loop those that were asked for before, if they have come."""
        if has_running_loop():
            return self._take_earlier()
        asked = self._store.submit(_read)
        try:
            return asked.result(FLEET_PATIENCE)
        except TimeoutError:
            asked.cancel()
            raise

    def _take_earlier(self) -> FleetSnapshot | None:
        earlier = self._asked
        if earlier is not None and not earlier.done():
            return None
        self._asked = self._store.submit(_read)
        return None if earlier is None else earlier.result()


async def _read(opened: OpenStore) -> FleetSnapshot | None:
    return await read_fleet(opened.store)

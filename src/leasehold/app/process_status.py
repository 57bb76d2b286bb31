"""The metrics, the health and the readiness of a process: of its service, of its counts, and of the whole fleet."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from leasehold.config import VERSION
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.operations.fleet import read_fleet
from leasehold.runtime.loop_probe import LoopProbe
from leasehold.runtime.process import process_number
from leasehold.store import Store
from leasehold.telemetry.metrics import Metrics, ProcessState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

log = logging.getLogger("leasehold")

# Seconds for which a reader of metrics waits for the database, and a probe for the event loop.
FLEET_PATIENCE, LOOP_PATIENCE = 3.0, 0.5
# A process is not ready when its loop has not answered for so many seconds, and should be ended after so many.
LOOP_LATE, LOOP_DEAD = 5.0, 60.0


class Service(Protocol):
    """A worker, a scheduler or a server of the API, which asks its database first."""

    def process_state(self) -> ProcessState | Awaitable[ProcessState]: ...

    @property
    def current_store(self) -> Store | None:
        """The open store, on the loop of the service; None while the database is away."""


def require_metrics() -> None:
    """Raises InvalidInput if the package of the extra `metrics` is not installed."""
    if find_spec("prometheus_client") is None:
        raise InvalidInput(
            "metrics need the package prometheus-client. Nothing was started.",
            fix="Install it: pip install 'leasehold[metrics]'",
        )


def worker_label() -> str:
    """Returns the name of this process that outlives its restarts: the host, and its number among its siblings."""
    return f"{socket.gethostname()}:{process_number()}"


class FleetFigures:
    """The figures of the fleet as this process has read them last. `ask` reads them, in time."""

    def __init__(self, ask: Callable[[], FleetSnapshot | None]) -> None:
        self._ask = ask
        self._latest: FleetSnapshot | None = None

    def read(self) -> FleetSnapshot | None:
        """Returns the figures of now, or the last ones that could be read, with the age that they had then."""
        try:
            self._latest = self._ask() or self._latest
        except (LeaseholdError, TimeoutError, CancelledError, OSError) as error:
            log.debug("the figures of the fleet can't be read: %s", error)
            self._latest = None
        return self._latest


class MetricsCollector:
    """A collector of prometheus-client: makes all metrics at the moment at which they are read."""

    def __init__(
        self, metrics: Metrics, fleet: FleetFigures, state: Callable[[], ProcessState | None] = lambda: None
    ) -> None:
        require_metrics()
        self._metrics = metrics
        self._fleet = fleet
        self._state = state

    def describe(self) -> "Sequence[Metric]":
        """Returns nothing, so that a registry reads no database when the collector is registered."""
        return ()

    def collect(self) -> "Iterator[Metric]":
        from leasehold.telemetry import metric_families

        yield from metric_families.families_of_process(self._metrics, worker_label(), VERSION)
        if (state := self._state()) is not None:
            yield from metric_families.families_of_state(state)
        if (fleet := self._fleet.read()) is not None:
            yield from metric_families.families_of_fleet(
                fleet, self._metrics.most_tenants, self._metrics.most_definitions
            )


def render(registry: "CollectorRegistry", accept: str) -> tuple[str, bytes]:
    """Returns the metrics of a registry as a text, with its content type, in a format that the reader accepts."""
    from prometheus_client.exposition import choose_encoder

    encode, kind = choose_encoder(accept)
    return kind, encode(registry)


def render_once(collector: MetricsCollector, accept: str) -> tuple[str, bytes]:
    """Returns the metrics of one collector as a text, with its content type."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return render(registry, accept)


class ServiceStatus:
    """The status of a process that runs a service, for its status server."""

    def __init__(self, metrics: Metrics) -> None:
        require_metrics()
        from prometheus_client import CollectorRegistry, ProcessCollector

        self._metrics = metrics
        self._probe = LoopProbe()
        self._service: Service | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        fleet = FleetFigures(lambda: self._probe.ask(self._read_fleet, FLEET_PATIENCE))
        self._registry.register(MetricsCollector(metrics, fleet, self._state))

    def attach(self, service: Service) -> None:
        """Tells which service runs, on the loop that runs now."""
        self._probe.loop = asyncio.get_running_loop()
        self._service = service

    def metrics(self, accept: str) -> tuple[str, bytes]:
        return render(self._registry, accept)

    def health(self) -> Sequence[str]:
        lag = self._probe.lag(LOOP_PATIENCE)
        return [f"the event loop has not answered for {lag:.0f} s"] if lag > LOOP_DEAD else []

    def readiness(self) -> Sequence[str]:
        return self._state().problems

    def _state(self) -> ProcessState:
        """Returns the state of the service, by way of its loop; a loop that does not answer is a problem, too."""
        lag = self._probe.lag(LOOP_PATIENCE)
        if self._service is None:
            return ProcessState(("it has not started yet",))
        if lag > LOOP_LATE:
            return ProcessState((f"the event loop has not answered for {lag:.0f} s: a handler may block it",))
        try:
            return self._probe.ask(self._ask_state, LOOP_LATE)
        except TimeoutError:
            return ProcessState((f"the event loop has not answered for {LOOP_LATE:g} s: a handler may block it",))

    async def _ask_state(self) -> ProcessState:
        assert self._service is not None
        state = self._service.process_state()
        return state if isinstance(state, ProcessState) else await state

    async def _read_fleet(self) -> FleetSnapshot | None:
        store = None if self._service is None else self._service.current_store
        return None if store is None else await read_fleet(store)

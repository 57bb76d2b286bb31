"""The part of an app that its API needs."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from leasehold.engine import Finding
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.operations.catalog import Catalog
from leasehold.operations.enqueue import CodeDefinition
from leasehold.store import Store
from leasehold.telemetry import Listeners
from leasehold.worker import Ticked

T = TypeVar("T")


class Tick(Protocol):
    """Runs due jobs in this process for a limited time."""

    async def __call__(
        self, max_jobs: int, max_seconds: float, *, only: Sequence[str], tenants: Sequence[str] | None
    ) -> Ticked: ...


class Backend(Protocol):
    """An app. `tick` is None if no handlers are loaded, so that nothing could be run here."""

    @property
    def tick(self) -> Tick | None: ...

    @property
    def listeners(self) -> Listeners:
        """The listeners of its events."""

    @property
    def current_store(self) -> Store | None:
        """The store that is open on this loop, if any."""

    def use_here(self) -> AbstractAsyncContextManager[Any]:
        """Opens the app's database on this loop for the length of the block. Calls work without it, on a thread."""

    async def call(self, operation: Callable[[Catalog], Coroutine[Any, Any, T]]) -> T: ...

    async def examine(self) -> Sequence[Finding]:
        """Returns the findings of `leasehold doctor` about the app's database. Raises Unreachable."""

    def metrics_text(self, fleet: FleetSnapshot | None, accept: str) -> tuple[str, bytes]:
        """Returns the metrics of this process and of the fleet, with their content type. Raises InvalidInput."""

    def code(self, key: str) -> CodeDefinition | None:
        """Returns a definition whose handler is loaded."""

"""The part of an app that its API needs."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from leasehold.engine import Finding
from leasehold.operations.catalog import Catalog
from leasehold.operations.enqueue import CodeDefinition
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

    def use_here(self) -> AbstractAsyncContextManager[Any]:
        """Opens the app's database on this loop for the length of the block. Calls work without it, on a thread."""

    async def call(self, operation: Callable[[Catalog], Coroutine[Any, Any, T]]) -> T: ...

    async def examine(self) -> Sequence[Finding]:
        """Returns the findings of `leasehold doctor` about the app's database. Raises Unreachable."""

    def code(self, key: str) -> CodeDefinition | None:
        """Returns a definition whose handler is loaded."""

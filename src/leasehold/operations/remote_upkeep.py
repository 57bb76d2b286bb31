"""The upkeep that a server does for workers over HTTP: a worker with a scoped token must not see others' claims.

Without such workers it runs operations only, when a person begins one or looks at one: there may be no worker at all.
"""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.runtime.supervise import cancel_all, keep_running
from leasehold.store import Renewal, Store
from leasehold.store.operation_batch import run_while_due
from leasehold.telemetry import Listeners
from leasehold.telemetry.attempt_events import report_reclaim
from leasehold.upkeep import Upkeep

log = logging.getLogger("leasehold.worker")

T = TypeVar("T")
PRUNE_EVERY = timedelta(hours=1)
# Seconds that a server waits for the next batch of an operation with a slow pace, of which no heartbeat reminds it.
LONGEST_WAIT = 3600.0


class RemoteUpkeep:
    """The loops of every worker. They begin when the first worker over HTTP joins or beats, and end with the server:
    idle ones cost a statement a minute.
    """

    def __init__(self, store: Store, listeners: Listeners) -> None:
        self._store = store
        self._listeners = listeners
        self._upkeep = Upkeep(store, _await, self._report, PRUNE_EVERY, listeners.tracing)
        self._loops: list[asyncio.Task[None]] = []
        self._operations: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return bool(self._loops)

    def begin(self) -> None:
        if not self._loops:
            self._loops = [
                keep_running(f"{name} for workers over HTTP", loop, lost=lambda _: None)
                for name, loop in self._upkeep.loops().items()
            ]

    def note(self, renewal: Renewal) -> None:
        """Acts on what the heartbeat of a worker tells."""
        self.begin()
        self._upkeep.note(renewal)

    def note_operation(self) -> None:
        """Runs open operations until none is left, or until another runner has them."""
        if self._loops:
            self._upkeep.operations_found.set()
        elif self._operations is None or self._operations.done():
            self._operations = asyncio.create_task(self._run_operations(), name="leasehold operations of a server")

    async def _run_operations(self) -> None:
        try:
            await run_while_due(self._store.operations, asyncio.sleep, longest_wait=LONGEST_WAIT)
        except Exception:
            log.exception("an operation is left to workers, or to the next look at it")

    async def close(self) -> None:
        loops, self._loops = self._loops, []
        await cancel_all(loops if self._operations is None else [*loops, self._operations])

    def _report(self, claim: Claim, verdict: Verdict) -> None:
        report_reclaim(self._listeners, claim, verdict, by=None)


async def _await(asked: Awaitable[T]) -> T:
    return await asked

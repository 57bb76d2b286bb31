"""The upkeep that a server does for workers over HTTP: a worker with a scoped token must not see others' claims."""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.runtime.supervise import cancel_all, keep_running
from leasehold.store import Renewal, Store
from leasehold.upkeep import Upkeep

log = logging.getLogger("leasehold.worker")

T = TypeVar("T")
PRUNE_EVERY = timedelta(hours=1)


class RemoteUpkeep:
    """The loops of every worker. They begin when the first worker over HTTP joins or beats, and end with the server:
    idle ones cost a statement a minute.
    """

    def __init__(self, store: Store) -> None:
        self._upkeep = Upkeep(store, _await, _report, PRUNE_EVERY)
        self._loops: list[asyncio.Task[None]] = []

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
        self.begin()
        self._upkeep.operations_found.set()

    async def close(self) -> None:
        loops, self._loops = self._loops, []
        await cancel_all(loops)


async def _await(asked: Awaitable[T]) -> T:
    return await asked


def _report(claim: Claim, verdict: Verdict) -> None:
    log.warning(
        "job %s try %d was reclaimed: worker %s is gone; the job is %s now",
        *(claim.job, claim.tries, claim.worker, verdict.status.value),
    )

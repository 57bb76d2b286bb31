"""The databases of chaos runs: how each is started, the faults it can have, and the writes that it noted."""

from typing import Protocol

from tests.faults.chaos.nemesis import Fault
from tests.faults.chaos.witnesses import Written


class ChaosServer(Protocol):
    """A database server of one run.

    url      for producers and for the proxies of workers
    shares   the faults that a run draws, and how often each
    finish   bytes that a worker sends only with a finish
    """

    url: str
    shares: dict[Fault, int]
    finish: bytes

    async def suffer(self, fault: Fault, jitter: float) -> None:
        """One of the faults of the server itself."""

    async def written(self) -> Written: ...

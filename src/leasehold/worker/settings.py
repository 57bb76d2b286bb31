"""Settings of a worker."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_duration, problems_of_integer, problems_of_text
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import TenantId
from leasehold.worker.heartbeat import Leases

SHORTEST_FALLBACK = timedelta(seconds=0.1)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker. `dispatchers` are claim loops side by side.

    A `fallback` of None means: look for work every 60 s while wakes arrive, every 2 s while they don't.
    """

    slots: int = 10
    dispatchers: int = 1
    leases: Leases = field(default_factory=Leases)
    notify: bool = True
    fallback: timedelta | None = None
    grace: timedelta = timedelta(seconds=30)
    prune_every: timedelta = timedelta(hours=1)
    tenants: tuple[TenantId, ...] | None = None
    version: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    if TYPE_CHECKING:  # the constructor also takes the durations as text and as seconds

        def __init__(
            self,
            slots: int = ...,
            dispatchers: int = ...,
            leases: Leases = ...,
            notify: bool = ...,
            fallback: Duration | None = ...,
            grace: Duration = ...,
            prune_every: Duration = ...,
            tenants: tuple[TenantId, ...] | None = ...,
            version: str = ...,
            metadata: dict[str, str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("fallback", "grace", "prune_every"):
            object.__setattr__(self, name, as_duration(getattr(self, name)))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"Invalid worker settings: {'; '.join(problems)}.", fix="Nothing was started. Correct the settings."
            )

    def _problems(self) -> Iterator[str]:
        yield from problems_of_integer("slots", self.slots, 1)
        yield from problems_of_integer("dispatchers", self.dispatchers, 1)
        yield from problems_of_duration("grace", self.grace)
        yield from problems_of_duration("prune_every", self.prune_every)
        yield from problems_of_text("version", self.version)
        for name, value in self.metadata.items():
            yield from problems_of_text("metadata", name)
            yield from problems_of_text("metadata", value)
        if self.fallback is None:
            return
        if problems := list(problems_of_duration("fallback", self.fallback)):
            yield from problems
        elif self.fallback < SHORTEST_FALLBACK:
            shortest = SHORTEST_FALLBACK.total_seconds()
            yield f"fallback={self.fallback} is shorter than {shortest:g} s, it would ask the database all the time"

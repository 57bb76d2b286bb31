"""Settings of a worker."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_duration, problems_of_integer, problems_of_text
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import TenantId, tenant_id
from leasehold.store import Subscription
from leasehold.worker.heartbeat import Leases
from leasehold.worker.selection import select_definitions

SHORTEST_FALLBACK = timedelta(seconds=0.1)
LOG_LINES = 1000


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker. `dispatchers` are claim loops side by side. `log_lines` is how many lines of one job wait
    to be written; further ones are dropped, and counted in their place.

    A `fallback` of None means: look for work every 60 s while wakes arrive, every 2 s while they don't.

    `only` and `exclude` select definitions of the app, by keys and by patterns such as "sync-*"; `tenants` are those
    whose jobs it runs, None: all.
    """

    slots: int = 10
    dispatchers: int = 1
    leases: Leases = field(default_factory=Leases)
    notify: bool = True
    fallback: timedelta | None = None
    grace: timedelta = timedelta(seconds=30)
    prune_every: timedelta = timedelta(hours=1)
    log_lines: int = LOG_LINES
    tenants: tuple[TenantId, ...] | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
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
            log_lines: int = ...,
            tenants: Sequence[str] | None = ...,
            only: Sequence[str] = ...,
            exclude: Sequence[str] = ...,
            version: str = ...,
            metadata: dict[str, str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("fallback", "grace", "prune_every"):
            object.__setattr__(self, name, as_duration(getattr(self, name)))
        for name, read in (("only", str), ("exclude", str), ("tenants", tenant_id)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                object.__setattr__(self, name, tuple(map(read, given)))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"Invalid worker settings: {'; '.join(problems)}.", fix="Nothing was started. Correct the settings."
            )

    def subscription(self, declared: Sequence[str], usable: Container[str] | None = None) -> Subscription:
        """Returns the jobs that the worker serves, of an app that declares these definitions. Raises InvalidInput.

        Leaves out those that are not `usable`: a selection may name them all the same.
        """
        selected = select_definitions(declared, self.only, self.exclude)
        kept = tuple(key for key in selected if usable is None or key in usable)
        return Subscription(kept, self.tenants)

    def _problems(self) -> Iterator[str]:
        yield from problems_of_integer("slots", self.slots, 1)
        yield from problems_of_integer("dispatchers", self.dispatchers, 1)
        yield from problems_of_integer("log_lines", self.log_lines, 1)
        yield from problems_of_duration("grace", self.grace)
        yield from problems_of_duration("prune_every", self.prune_every)
        yield from problems_of_text("version", self.version)
        for name in ("only", "exclude", "tenants"):
            if isinstance(given := getattr(self, name), str):
                yield f"{name}={given!r} is one text, and a tuple is needed: ({given!r},)"
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

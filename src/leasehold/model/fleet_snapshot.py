"""Figures of the whole fleet at one moment, for gauges: one process measures them, all others read them. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# Tenants whose depths a snapshot keeps by name. The jobs of all others are added up.
NAMED_TENANTS = 100
OTHERS = None
"""The place of a tenant's name for all tenants that are not named."""


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """The state of the database. A role without pg_read_all_stats sees transactions of its own sessions only."""

    oldest_transaction: float
    dead_rows: Mapping[str, int]
    live_rows: Mapping[str, int]
    notification_queue: float
    connections: int
    max_connections: int


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The figures, and how many seconds ago they were measured.

    by_tenant      jobs by (tenant, state); OTHERS stands for tenants that are not named
    by_definition  jobs by (definition, state)
    oldest         by definition, the seconds for which a due job has waited: the first of each tenant and priority,
                   unless a pause or an inactive definition holds it
    workers        live registrations and their slots
    unserved       active definitions that no live worker serves
    overdue        the seconds by which the next schedule is late; 0: none is
    """

    age: float
    by_tenant: Mapping[tuple[str | None, str], int]
    by_definition: Mapping[tuple[str, str], int]
    oldest: Mapping[str, float]
    workers: int
    slots: int
    unserved: Sequence[str]
    overdue: float
    database: DatabaseHealth | None = None

    def as_document(self) -> dict[str, Any]:
        """Returns the figures as an engine stores them, without their age."""
        return {
            "by_tenant": [[*key, jobs] for key, jobs in self.by_tenant.items()],
            "by_definition": [[*key, jobs] for key, jobs in self.by_definition.items()],
            "oldest": dict(self.oldest),
            "workers": self.workers,
            "slots": self.slots,
            "unserved": list(self.unserved),
            "overdue": self.overdue,
            "database": None if self.database is None else asdict(self.database),
        }


def read_snapshot(document: Mapping[str, Any], age: float) -> FleetSnapshot:
    database = document["database"]
    return FleetSnapshot(
        max(0.0, age),
        {(tenant, state): jobs for tenant, state, jobs in document["by_tenant"]},
        {(definition, state): jobs for definition, state, jobs in document["by_definition"]},
        document["oldest"],
        document["workers"],
        document["slots"],
        document["unserved"],
        document["overdue"],
        None if database is None else DatabaseHealth(**database),
    )


@dataclass(slots=True)
class DepthCounts:
    """Counts jobs by tenant, definition and state."""

    lanes: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def add(self, tenant: str, definition: str, state: str) -> None:
        key = (tenant, definition, state)
        self.lanes[key] = self.lanes.get(key, 0) + 1

    def by_definition(self) -> dict[tuple[str, str], int]:
        return _sums(((definition, state), jobs) for (_, definition, state), jobs in self.lanes.items())

    def by_tenant(self) -> dict[tuple[str | None, str], int]:
        each = _sums(((tenant, state), jobs) for (tenant, _, state), jobs in self.lanes.items())
        return keep_largest(each, NAMED_TENANTS)


def keep_largest(by_tenant: Mapping[tuple[str | None, str], int], most: int) -> dict[tuple[str | None, str], int]:
    """Adds up the jobs of all but the `most` tenants that have most of them, under OTHERS."""
    totals = _sums((tenant, jobs) for (tenant, _), jobs in by_tenant.items() if tenant is not None)
    named = set(sorted(totals, key=lambda tenant: (-totals[tenant], tenant))[:most])
    return _sums(
        ((tenant if tenant in named else OTHERS, state), jobs) for (tenant, state), jobs in by_tenant.items()
    )


def _sums(counts: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    summed: dict[Any, int] = {}
    for key, jobs in counts:
        summed[key] = summed.get(key, 0) + jobs
    return summed

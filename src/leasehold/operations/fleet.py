"""The figures of the whole fleet, for gauges and for counts of all tenants."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from leasehold.model.fleet_snapshot import OTHERS, FleetSnapshot
from leasehold.model.status import DisplayState, Status
from leasehold.store import Store

# How old the figures may be before a reader measures them.
FRESH = timedelta(seconds=15)
# A measurement counts up to so many waiting jobs of a lane, and up to so many dead letters of a tenant.
WAITING_CAP = 10_000
DEAD_CAP = 1_000
_WAITING = (DisplayState.READY, DisplayState.RETRYING, DisplayState.SCHEDULED)
_DEAD = "dead_letter"


async def read_fleet(store: Store) -> FleetSnapshot | None:
    """Returns the figures of the fleet; None for a worker over HTTP, whose server has them."""
    return await store.fleet_snapshot(FRESH) if store.abilities.upkeep else None


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """Jobs of all tenants by status, counted `age` seconds ago. There may be more of the statuses in `at_least`.

    `longest_wait` is the time for which a due job has waited that nothing holds; None without one.
    """

    jobs: Mapping[Status, int]
    at_least: frozenset[Status]
    longest_wait: timedelta | None
    age: timedelta


async def read_counts(store: Store) -> FleetCounts | None:
    """Returns how many jobs of all tenants wait, run and are dead; None on an engine that does not count them all."""
    snapshot = await read_fleet(store) if store.abilities.series else None
    return None if snapshot is None else counts_of(snapshot)


def counts_of(snapshot: FleetSnapshot) -> FleetCounts:
    """Adds up the jobs of all tenants. Dead letters of tenants without a name are those of some of them."""
    sums: dict[str, int] = {}
    for (_, state), jobs in snapshot.by_tenant.items():
        sums[state] = sums.get(state, 0) + jobs
    waiting = sum(sums.get(state.value, 0) for state in _WAITING)
    dead = {tenant: jobs for (tenant, state), jobs in snapshot.by_tenant.items() if state == _DEAD}
    at_least = {Status.QUEUED: waiting >= WAITING_CAP}
    at_least[Status.DEAD_LETTER] = OTHERS in dead or any(jobs >= DEAD_CAP for jobs in dead.values())
    jobs_by_status = {
        Status.QUEUED: waiting,
        Status.RUNNING: sums.get(DisplayState.RUNNING.value, 0),
        Status.DEAD_LETTER: sum(dead.values()),
    }
    longest = max(snapshot.oldest.values(), default=None)
    return FleetCounts(
        jobs_by_status,
        frozenset(status for status, is_least in at_least.items() if is_least),
        None if longest is None else timedelta(seconds=longest),
        timedelta(seconds=snapshot.age),
    )

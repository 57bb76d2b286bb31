"""The figures of the whole fleet, for gauges."""

from datetime import timedelta

from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.store import Store

# How old the figures may be before a reader measures them.
FRESH = timedelta(seconds=15)


async def read_fleet(store: Store) -> FleetSnapshot | None:
    """Returns the figures of the fleet; None for a worker over HTTP, whose server has them."""
    return await store.fleet_snapshot(FRESH) if store.abilities.upkeep else None

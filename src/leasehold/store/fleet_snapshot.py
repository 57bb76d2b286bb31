"""Figures of the fleet at one moment."""

from datetime import timedelta
from typing import Protocol

from leasehold.model.fleet_snapshot import FleetSnapshot


class SnapshotStore(Protocol):
    """Figures for gauges, which are measured once for all processes."""

    async def fleet_snapshot(self, max_age: timedelta) -> FleetSnapshot | None:
        """Returns the latest figures; measures them, if they are older than `max_age` and no other process does.

        Counts of jobs stop at a bound of the engine. None: they were never measured, and another process does it now.
        """

"""Figures of jobs over time."""

from collections.abc import Sequence
from typing import Protocol

from leasehold.model.series import Figure, Progress, Window


class SeriesStore(Protocol):
    """Figures of all tenants. An engine without the ability `series` raises InvalidInput."""

    async def roll_up(self) -> bool:
        """Adds up the minutes that have ended. Returns whether there may be more to do.

        One worker of all does it at a time: for the others there is nothing to do.
        """

    async def series_progress(self) -> Progress: ...

    async def figures_of_tenants(self, tenants: Sequence[str], definition: str, window: Window) -> Sequence[Figure]:
        """Returns figures by tenant, of one definition or of all (''); '' stands for all tenants."""

    async def figures_of_definitions(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        """Returns figures of all tenants by definition; '' stands for all definitions."""

    async def busiest_tenants(self, window: Window, limit: int) -> Sequence[str]:
        """Returns the tenants whose jobs ran longest, the busiest first."""

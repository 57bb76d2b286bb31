"""Figures of jobs over time."""

from collections.abc import Sequence
from typing import Protocol

from leasehold.model.series import Figure, Progress, Window


class SeriesStore(Protocol):
    """Figures of all tenants. Without the ability `series`, all but `roll_up` raise InvalidInput."""

    async def roll_up(self) -> bool:
        """Adds up usage and, if the engine keeps series, the minutes that have ended. Returns whether there may be
        more to do.

        An engine with series lets one worker of all do it at a time: for the others there is nothing to do.
        """

    async def series_progress(self) -> Progress: ...

    async def figures_of_tenants(self, tenants: Sequence[str], definition: str, window: Window) -> Sequence[Figure]:
        """Returns figures by tenant, of one definition or of all (''); '' stands for all tenants."""

    async def figures_of_definitions(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        """Returns figures of all tenants by definition; '' stands for all definitions."""

    async def busiest_tenants(self, window: Window, limit: int) -> Sequence[str]:
        """Returns the tenants whose jobs ran longest, the busiest first."""

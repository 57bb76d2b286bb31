"""Figures over time, which this engine does not keep."""

from collections.abc import Sequence

from leasehold.engines.dynamodb.refusals import no_series
from leasehold.model.series import Figure, Progress, Window


class NoSeries:
    """Refuses every read."""

    async def series_progress(self) -> Progress:
        raise no_series()

    async def figures_of_tenants(self, tenants: Sequence[str], definition: str, window: Window) -> Sequence[Figure]:
        raise no_series()

    async def figures_of_definitions(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        raise no_series()

    async def busiest_tenants(self, window: Window, limit: int) -> Sequence[str]:
        raise no_series()

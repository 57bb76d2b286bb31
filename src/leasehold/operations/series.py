"""Figures of jobs over time, for charts: of a tenant, or of all."""

from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.errors import InvalidInput
from leasehold.model.duration import Duration
from leasehold.model.job import TenantId
from leasehold.model.series import By, Progress, Series, Window, rest_of, series_of, window
from leasehold.store import Store

# A chart with more lines than these can't be read.
MOST_SERIES = 8
EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Series of one window. `others` is what the tenants beyond the busiest have together; None if there are none."""

    window: Window
    progress: Progress
    by: By
    series: Sequence[Series]
    others: Series | None = None


async def read(
    store: Store,
    tenant: TenantId | None,
    length: Duration = "1h",
    by: By = By.ALL,
    definition: str | None = None,
    most: int = MOST_SERIES,
) -> Chart:
    """Reads the figures of a tenant, or of all tenants for None.

    By definition, `most` of them have a series, the busiest first; by tenant, the others are added up in one.
    """
    if by is By.TENANT and tenant is not None:
        raise InvalidInput(
            "the figures of one tenant can't be divided by tenant. Nothing was read.",
            fix="Leave out the tenant, or divide by definition.",
        )
    progress = await store.series_progress()
    asked = window(length, progress)
    if by is By.TENANT:
        return await _by_tenant(store, asked, progress, definition or EVERYTHING, most)
    keys = [definition or EVERYTHING]
    if by is By.DEFINITION and definition is None:
        keys = [each.definition.key for each in await store.definitions()]
    if tenant is None:
        found = await store.figures_of_definitions(keys, asked)
    else:
        found = await store.tenant(tenant).figures(keys, asked)
    series = series_of(found, keys, asked)
    return Chart(asked, progress, by, sorted(series, key=_busy, reverse=True)[:most])


async def _by_tenant(store: Store, asked: Window, progress: Progress, definition: str, most: int) -> Chart:
    busiest = list(await store.busiest_tenants(asked, most))
    found = await store.figures_of_tenants([EVERYTHING, *busiest], definition, asked)
    total, *series = series_of(found, [EVERYTHING, *busiest], asked)
    others = rest_of(total, series) if len(busiest) == most else None
    return Chart(asked, progress, By.TENANT, series, others)


def _busy(series: Series) -> int:
    return sum(point.counts["busy_ms"] for point in series.points)

"""Tenants as rows of a table, with their figures of the last hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from leasehold.model.job import TenantId
from leasehold.model.series import Histogram, Series, Window, series_of
from leasehold.model.status import Status
from leasehold.operations import tenants
from leasehold.store import Store, TenantUsage

PAGE = 25
CAP = 1_000
HOUR = timedelta(hours=1)
EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class Hour:
    """Figures of one tenant's last hour. `share` is its part of the time that handlers of all tenants ran."""

    ended: int
    failed_share: float | None
    share: float
    wait: timedelta | None


@dataclass(frozen=True, slots=True)
class TenantRow:
    """A tenant; `hour` is None if the engine keeps no figures."""

    usage: TenantUsage
    hour: Hour | None

    @property
    def tenant(self) -> TenantId:
        return self.usage.tenant

    @property
    def waiting(self) -> int:
        return self.usage.jobs.get(Status.QUEUED, 0)

    @property
    def running(self) -> int:
        return self.usage.jobs.get(Status.RUNNING, 0)

    @property
    def dead(self) -> int:
        return self.usage.jobs.get(Status.DEAD_LETTER, 0)

    @property
    def is_paused(self) -> bool:
        return self.usage.paused_because is not None


@dataclass(frozen=True, slots=True)
class TenantPage:
    rows: Sequence[TenantRow]
    next: str | None


async def read_page(store: Store, cursor: str | None) -> TenantPage:
    """Reads a page of tenants by name: two statements for each, one for the figures of all."""
    page = await tenants.list_page(store, cursor, PAGE)
    used = [await store.tenant_usage(each, CAP) for each in page.tenants]
    hours = await _hours(store, page.tenants) if page.tenants else {}
    rows = [TenantRow(each, hours.get(each.tenant)) for each in used if each is not None]
    return TenantPage(rows, page.next)


async def _hours(store: Store, named: Sequence[TenantId]) -> Mapping[TenantId, Hour]:
    if not store.abilities.series:
        return {}
    progress = await store.series_progress()
    since = progress.now - HOUR
    window = Window(since, max(since, progress.minutes), int(HOUR.total_seconds()), of_hours=False)
    keys = [EVERYTHING, *named]
    total, *series = series_of(await store.figures_of_tenants(keys, EVERYTHING, window), keys, window)
    busy = _sum(total, "busy_ms")
    return {tenant: _hour(each, busy) for tenant, each in zip(named, series, strict=True)}


def _hour(series: Series, busy: int) -> Hour:
    succeeded, failed = _sum(series, "succeeded"), _sum(series, "failed_attempts")
    ended = succeeded + sum(_sum(series, name) for name in ("failed", "dead_letter", "canceled"))
    tried = succeeded + failed
    buckets: dict[int, int] = {}
    for point in series.points:
        for bucket, count in point.wait.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
    wait = Histogram(buckets).percentile(0.95)
    return Hour(
        ended,
        failed / tried if tried else None,
        _sum(series, "busy_ms") / busy if busy else 0.0,
        None if wait is None else timedelta(seconds=wait),
    )


def _sum(series: Series, name: str) -> int:
    return sum(point.counts[name] for point in series.points)

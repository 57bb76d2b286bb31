"""The overview: what waits, runs and fails now, and how that was over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from leasehold.console import charts
from leasehold.console.all_counts import read_all_counts
from leasehold.console.charts import Chart, Layer, Part
from leasehold.console.pages import Area, Pages, Visit
from leasehold.console.rendering import count_text
from leasehold.console.routes.dead import GroupRow, read_groups
from leasehold.errors import LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.duration import span
from leasehold.model.job import tenant_id
from leasehold.model.series import By, Point
from leasehold.model.status import Status
from leasehold.operations import jobs, series, views
from leasehold.store import Store

pages = Pages()
CAP = 10_000
SHOWN_GROUPS = 5
WINDOWS = ("15m", "1h", "6h", "24h", "7d", "30d")
_DEPTHS = (
    Layer("running", "running", lambda point: point.depths["running"], "status:running"),
    Layer("ready", "ready", lambda point: point.depths["ready"], "status:ready"),
    Layer("retrying", "retrying", lambda point: point.depths["retrying"], "status:retrying"),
)
_ENDS = (
    Layer("succeeded", "succeeded", lambda point: point.counts["succeeded"], "status:succeeded"),
    Layer("failed tries", "retrying", lambda point: point.counts["failed_attempts"]),
    Layer("canceled", "canceled", lambda point: point.counts["canceled"], "status:canceled"),
    Layer(
        "gave up",
        "dead-letter",
        lambda point: point.counts["failed"] + point.counts["dead_letter"],
        "status:failed,dead-letter",
    ),
)
_WAITS = (
    Layer("half wait less than", "ready", lambda point: point.wait.percentile(0.5)),
    Layer("95 % wait less than", "ready", lambda point: point.wait.percentile(0.95), dashed=True),
)
_RATES = (Layer("failed tries", "dead-letter", lambda point: _failure_rate(point)),)
_RUNS = (
    Layer("half run less than", "running", lambda point: point.run.percentile(0.5)),
    Layer("95 % run less than", "running", lambda point: point.run.percentile(0.95), dashed=True),
)


def _failure_rate(point: Point) -> float | None:
    """Returns the share of failed tries among those that ended; None without any."""
    failed = point.counts["failed_attempts"]
    ended = failed + point.counts["succeeded"]
    return failed / ended if ended else None


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of now, and the list behind it."""

    title: str
    text: str
    state: str
    href: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The tiles; the oldest job that a tenant has waiting; for all tenants, when their jobs were counted."""

    tiles: Sequence[Tile]
    oldest: datetime | None = None
    measured_at: datetime | None = None


@pages.add("GET", "", Permission.JOBS_READ)
async def overview(visit: Visit) -> Response:
    """Shows counts of now and charts of a window, each with a table of the same figures."""
    asked = visit.request.query_params.get("window", "1h")
    window = asked if asked in WINDOWS else "1h"
    counted = await _count_now(visit)
    points, problem = await _points(visit, window)
    groups, _ = await read_groups(visit)
    links = {
        layer.name: f"{visit.area.base}/jobs?q={layer.query}+created:<{window}"
        for layer in (*_DEPTHS, *_ENDS)
        if layer.query is not None
    }
    facts = {
        "tiles": counted.tiles,
        "oldest": counted.oldest,
        "measured_at": counted.measured_at,
        "window": window,
        "windows": WINDOWS,
        "charts": [] if problem else [*_charts(points, links), *await _tenant_shares(visit, window)],
        "groups": _worst(groups),
        "more_groups": max(len(groups) - SHOWN_GROUPS, 0),
        "step": points[1].at - points[0].at if len(points) > 1 else timedelta(minutes=1),
        "problem": problem,
        "since": points[0].at if points else None,
        "width": charts.WIDTH,
        "height": charts.HEIGHT,
    }
    return await visit.show("overview.html", "overview", facts)


async def _points(visit: Visit, window: str) -> tuple[Sequence[Point], LeaseholdError | None]:
    """Reads the figures of a window; the reason, if this engine keeps none."""

    async def read(store: Store) -> Sequence[Point]:
        found = (await series.read(store, visit.area.tenant, window)).series
        return found[0].points if found else ()

    try:
        return await visit.shared(("series", visit.area.tenant, window), read), None
    except LeaseholdError as error:
        if await visit.context.ask(_keeps_series):
            raise
        return (), error


async def _keeps_series(store: Store) -> bool:
    return store.abilities.series


def _charts(points: Sequence[Point], links: dict[str, str]) -> list[Chart]:
    return [
        charts.stack("depth", "Jobs that wait or run", "jobs", _DEPTHS, points, links),
        charts.stack("ends", "Ends of jobs and tries", "per step", _ENDS, points, links),
        charts.durations("wait", "Time until a job starts", _WAITS, points),
        charts.durations("run", "Time that a try takes", _RUNS, points),
        charts.rates("failures", "Failures", _RATES, points),
    ]


async def _tenant_shares(visit: Visit, window: str) -> list[Chart]:
    """Draws which tenants use the workers, for visitors who see all of them."""
    if visit.area.tenant is not None:
        return []

    async def read(store: Store) -> series.Chart:
        return await series.read(store, None, window, By.TENANT)

    found = await visit.shared(("tenant shares", window), read)
    named = [
        Part(
            views.visible(each.key or ""),
            f"part-{number}",
            [point.counts["busy_ms"] for point in each.points],
            f"{Area.of(visit.root, tenant_id(each.key)).base}?window={window}" if each.key else None,
        )
        for number, each in enumerate(found.series)
    ]
    if found.others is not None:
        named.append(Part("others", "part-8", [point.counts["busy_ms"] for point in found.others.points]))
    moments = [point.at for point in found.series[0].points] if found.series else []
    return [charts.shares("tenants", "Tenants at work", "share of worker time", named, moments)] if moments else []


def _worst(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Returns the groups with the most jobs of the last 24 hours, then with the most of all."""
    return sorted(groups, key=lambda group: (-group.recent, -group.jobs))[:SHOWN_GROUPS]


# ------------------------------------------------------------------------------------------------------------- tiles


_TILES = {
    Status.QUEUED: ("Waiting", "ready", "queued"),
    Status.RUNNING: ("Running", "running", "running"),
    Status.SUCCEEDED: ("Succeeded", "succeeded", "succeeded"),
    Status.FAILED: ("Failed", "failed", "failed"),
    Status.DEAD_LETTER: ("Dead letter", "dead-letter", "dead-letter"),
}


async def _count_now(visit: Visit) -> Counted:
    """Counts the jobs of a tenant, or reads the counts of all tenants, which are measured now and then."""
    owner = visit.area.tenant
    if owner is not None:
        summary = await visit.shared(("summary", owner), lambda store: jobs.summary(store, owner, CAP))
        texts = {status: count_text(summary.counts.get(status, 0), CAP) for status in _TILES}
        return Counted(_tiles(visit, texts), oldest=summary.oldest_queued_at)
    counts = await read_all_counts(visit)
    tiles = _tiles(visit, counts.texts)
    if counts.longest_wait is not None:
        tiles.append(Tile("Longest wait", span(counts.longest_wait), "scheduled", _list_of(visit, "ready")))
    return Counted(tiles, measured_at=counts.measured_at)


def _tiles(visit: Visit, texts: Mapping[Status, str]) -> list[Tile]:
    return [
        Tile(title, texts[status], state, _list_of(visit, word))
        for status, (title, state, word) in _TILES.items()
        if status in texts
    ]


def _list_of(visit: Visit, word: str) -> str:
    return f"{visit.area.base}/jobs?q=status:{word}"

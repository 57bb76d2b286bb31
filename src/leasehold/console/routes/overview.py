"""The overview: what waits, runs and fails now, and how that was over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from leasehold.console import charts
from leasehold.console.charts import Chart, Layer
from leasehold.console.pages import Pages, Visit
from leasehold.errors import LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.series import Point
from leasehold.model.status import Status
from leasehold.operations import jobs, series
from leasehold.operations.jobs import Summary
from leasehold.store import Store

pages = Pages()
CAP = 10_000
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
_RUNS = (
    Layer("half run less than", "running", lambda point: point.run.percentile(0.5)),
    Layer("95 % run less than", "running", lambda point: point.run.percentile(0.95), dashed=True),
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of now, and the list behind it."""

    title: str
    value: int
    state: str
    href: str


@pages.add("GET", "", Permission.JOBS_READ)
async def overview(visit: Visit) -> Response:
    """Shows counts of now and charts of a window, each with a table of the same figures."""
    owner = visit.area.tenant
    asked = visit.request.query_params.get("window", "1h")
    window = asked if asked in WINDOWS else "1h"
    summary = (
        None
        if owner is None
        else await visit.shared(("summary", owner), lambda store: jobs.summary(store, owner, CAP))
    )
    points, problem = await _points(visit, window)
    links = {
        layer.name: f"{visit.area.base}/jobs?q={layer.query}+created:<{window}"
        for layer in (*_DEPTHS, *_ENDS)
        if layer.query is not None
    }
    facts = {
        "tiles": [] if summary is None else _tiles(visit, summary),
        "summary": summary,
        "cap": CAP,
        "window": window,
        "windows": WINDOWS,
        "charts": [] if problem else _charts(points, links),
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
        charts.stacked("depth", "Jobs that wait or run", "jobs", _DEPTHS, points, links),
        charts.stacked("ends", "Ends of jobs and tries", "per step", _ENDS, points, links),
        charts.durations("wait", "Time until a job starts", _WAITS, points),
        charts.durations("run", "Time that a try takes", _RUNS, points),
    ]


def _tiles(visit: Visit, summary: Summary) -> list[Tile]:
    shown = {
        Status.QUEUED: ("Waiting", "ready", "queued"),
        Status.RUNNING: ("Running", "running", "running"),
        Status.SUCCEEDED: ("Succeeded", "succeeded", "succeeded"),
        Status.FAILED: ("Failed", "failed", "failed"),
        Status.DEAD_LETTER: ("Dead letter", "dead-letter", "dead-letter"),
    }
    return [
        Tile(title, summary.counts.get(status, 0), state, f"{visit.area.base}/jobs?q=status:{word}")
        for status, (title, state, word) in shown.items()
    ]

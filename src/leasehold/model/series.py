"""Figures of jobs over time, for charts: windows, steps, histograms and their percentiles. No I/O.

Engines keep figures of each minute for two days and of each hour for longer. A figure is a number under a name: a
count (`succeeded`), a bucket of a histogram (`wait:7`), or a sample (`depth:ready`). Counts of several minutes are
added; of samples the greatest is shown. A percentile comes from summed histograms, never from other percentiles.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from leasehold.errors import InvalidInput
from leasehold.model.duration import Duration, read_duration

COUNTS = (
    *("enqueued", "started", "succeeded", "failed_attempts", "retried"),
    *("failed", "dead_letter", "canceled", "busy_ms"),
)
DEPTHS = ("ready", "running", "retrying", "scheduled")
# Seconds: a duration in bucket n is at least BOUNDS[n - 1] and less than BOUNDS[n]; the last bucket has no end.
BOUNDS: tuple[float, ...] = tuple(0.001 * (1 << power) for power in range(25))
MOST_POINTS = 500
# How long an engine keeps figures of minutes; older ones are of hours.
MINUTES_KEPT = timedelta(hours=48)
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(days=400)
_MINUTE, _HOUR = 60, 3600
# The steps of the windows that people choose, and those of others: the first one that gives few enough points.
_STEPS_OF_WINDOWS = {
    15 * _MINUTE: _MINUTE,
    _HOUR: _MINUTE,
    6 * _HOUR: 5 * _MINUTE,
    24 * _HOUR: 15 * _MINUTE,
    7 * 24 * _HOUR: 2 * _HOUR,
    30 * 24 * _HOUR: 6 * _HOUR,
}
_STEPS = (_MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 2 * _HOUR, 6 * _HOUR, 24 * _HOUR)


class By(StrEnum):
    """How the figures of an answer are divided into series."""

    ALL = "all"
    DEFINITION = "definition"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Window:
    """A time, and the seconds of one step. With `of_hours`, the figures of hours are read."""

    since: datetime
    till: datetime
    step: int
    of_hours: bool

    def moments(self) -> list[datetime]:
        """Returns the beginning of each step."""
        first, last = int(self.since.timestamp()), int(self.till.timestamp())
        begin = first - first % self.step
        return [datetime.fromtimestamp(second, UTC) for second in range(begin, last, self.step)]


def window(length: Duration, progress: "Progress") -> Window:
    """Returns the window of this length that ends now; its steps end where figures are added up."""
    wanted = read_duration(length)
    if not SHORTEST <= wanted <= LONGEST:
        raise InvalidInput(
            f"a window of {wanted} can't be shown: it is from {SHORTEST} to {LONGEST.days} days long.",
            fix="Nothing was read. Ask for 15m, 1h, 6h, 24h, 7d or 30d.",
        )
    seconds = int(wanted.total_seconds())
    since = progress.now - wanted
    of_hours = wanted > MINUTES_KEPT
    till = max(since, progress.hours if of_hours else progress.minutes)
    least = _HOUR if of_hours else _MINUTE
    fitting = (each for each in _STEPS if each >= least and seconds <= each * (MOST_POINTS - 1))
    return Window(since, till, _STEPS_OF_WINDOWS.get(seconds) or next(fitting), of_hours)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations by bucket."""

    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    def percentile(self, share: float) -> float | None:
        """Returns the seconds that this share of the durations stays below, evenly spread within its bucket."""
        rank, passed = share * self.count, 0
        for bucket, count in sorted(self.buckets.items()):
            if count and passed + count >= rank:
                low = BOUNDS[bucket - 1] if bucket else 0.0
                high = BOUNDS[min(bucket, len(BOUNDS) - 1)]
                return low + (high - low) * (rank - passed) / count
            passed += count
        return None


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of one step."""

    at: datetime
    counts: Mapping[str, int]
    depths: Mapping[str, int]
    wait: Histogram
    run: Histogram


@dataclass(frozen=True, slots=True)
class Series:
    """The points of a definition, of a tenant, or of all (`key` is None); an empty key stands for others."""

    key: str | None
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Figure:
    """One stored number: `key` is a definition or a tenant, empty for all."""

    key: str
    at: datetime
    name: str
    n: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The engine's time, and up to when the figures of minutes and of hours are added up."""

    now: datetime
    minutes: datetime
    hours: datetime


def series_of(found: Iterable[Figure], keys: Sequence[str], asked: Window) -> list[Series]:
    """Returns a series for each key. A step without figures has zeros."""
    by_key: dict[str, dict[datetime, dict[str, float]]] = {key: {} for key in keys}
    for each in found:
        by_key[each.key].setdefault(each.at, {})[each.name] = each.n
    moments = asked.moments()
    return [Series(key or None, [_point(at, by_key[key].get(at, {})) for at in moments]) for key in keys]


def rest_of(total: Series, parts: Sequence[Series]) -> Series:
    """Returns what the total has beside the parts."""
    return Series("", [_less(*points) for points in zip(total.points, *(part.points for part in parts), strict=True)])


def _point(at: datetime, figures: Mapping[str, float]) -> Point:
    return Point(
        at,
        {name: round(figures.get(name, 0)) for name in COUNTS},
        {name: round(figures.get(f"depth:{name}", 0)) for name in DEPTHS},
        _histogram("wait:", figures),
        _histogram("run:", figures),
    )


def _histogram(prefix: str, figures: Mapping[str, float]) -> Histogram:
    return Histogram(
        {int(name.removeprefix(prefix)): round(n) for name, n in figures.items() if name.startswith(prefix)}
    )


def _less(total: Point, *parts: Point) -> Point:
    def without(whole: Mapping[str, int], name: str) -> dict[str, int]:
        return {each: max(0, n - sum(getattr(part, name)[each] for part in parts)) for each, n in whole.items()}

    def buckets(whole: Histogram, name: str) -> Histogram:
        return Histogram(
            {
                bucket: max(0, n - sum(getattr(part, name).buckets.get(bucket, 0) for part in parts))
                for bucket, n in whole.buckets.items()
            }
        )

    return Point(
        total.at,
        without(total.counts, "counts"),
        without(total.depths, "depths"),
        buckets(total.wait, "wait"),
        buckets(total.run, "run"),
    )

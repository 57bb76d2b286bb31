"""Windows and percentiles of figures over time."""

from datetime import UTC, datetime, timedelta

import pytest

from leasehold.model.series import BOUNDS, Figure, Histogram, Progress, rest_of, series_of, window

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
PROGRESS = Progress(NOW, datetime(2026, 3, 1, 12, 0, tzinfo=UTC), datetime(2026, 3, 1, 11, 0, tzinfo=UTC))


@pytest.mark.parametrize(
    ("length", "step"),
    [("15m", 60), ("1h", 60), ("6h", 300), ("24h", 900), ("7d", 7200), ("30d", 21600), ("7h", 60), ("400d", 86400)],
)
def test_a_window_has_the_step_of_its_length(length: str, step: int) -> None:
    assert window(length, PROGRESS).step == step


def test_a_window_ends_where_figures_are_added_up() -> None:
    assert window("1h", PROGRESS).till == PROGRESS.minutes
    assert window("7d", PROGRESS).till == PROGRESS.hours


def test_percentiles_come_from_summed_buckets() -> None:
    histogram = Histogram({1: 90, 11: 10})
    assert histogram.percentile(0.5) == pytest.approx(0.001 + 0.001 * 50 / 90)
    assert histogram.percentile(0.95) == pytest.approx(1.024 + 1.024 / 2 - 0.512, rel=1)
    assert Histogram({}).percentile(0.5) is None


def test_the_last_bucket_has_no_end() -> None:
    assert Histogram({len(BOUNDS): 1}).percentile(0.5) == BOUNDS[-1]


def test_others_are_the_total_less_the_parts() -> None:
    asked = window("15m", PROGRESS)
    at = asked.moments()[3]
    found = [Figure("", at, "succeeded", 5), Figure("", at, "wait:3", 5)]
    found += [Figure("acme", at, "succeeded", 3), Figure("acme", at, "wait:3", 3)]
    total, acme = series_of(found, ["", "acme"], asked)
    others = rest_of(total, [acme])
    assert sum(point.counts["succeeded"] for point in others.points) == 2
    assert others.points[3].wait.count == 2


def test_a_step_without_figures_has_zeros() -> None:
    asked = window("15m", PROGRESS)
    (empty,) = series_of([], [""], asked)
    assert len(empty.points) == 15
    assert empty.points[0].at + timedelta(minutes=14) == empty.points[-1].at
    assert not any(any(point.counts.values()) for point in empty.points)

"""Figures of minutes and hours: a known mix of jobs gives exactly the expected numbers."""

from collections import Counter
from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.job import NewJob
from leasehold.model.series import By, Histogram, Series
from leasehold.operations import series

pytestmark = pytest.mark.abilities("series")
MINUTE = timedelta(minutes=1)


def total(found: Series) -> dict[str, int]:
    """Adds up the counts of all points, and leaves out zeros and the time that jobs ran."""
    counts: Counter[str] = Counter()
    for point in found.points:
        counts.update(point.counts)
    return {name: n for name, n in counts.items() if n and name != "busy_ms"}


async def add_up(bench: Bench) -> None:
    """Ends the minute, and adds it up."""
    await bench.move_clock(MINUTE + timedelta(seconds=5))
    while await bench.store.roll_up():
        continue


async def run_a_mix(bench: Bench) -> None:
    await bench.succeeded()
    await bench.succeeded()
    await bench.succeeded(definition="email")
    await bench.dead_lettered()
    await bench.failed()
    await bench.canceled()
    waiting = await bench.enqueue()
    await bench.store.tenant(ACME).cancel([waiting])
    await bench.fail(await bench.running(max_attempts=3))


async def test_a_known_mix_gives_the_expected_numbers(bench: Bench) -> None:
    await run_a_mix(bench)
    await add_up(bench)
    chart = await series.read(bench.store, ACME, "15m")
    assert total(chart.series[0]) == {
        "enqueued": 8,
        "started": 7,
        "succeeded": 3,
        "failed_attempts": 3,
        "retried": 1,
        "failed": 1,
        "dead_letter": 1,
        "canceled": 2,
    }
    waits, runs = ([getattr(point, name) for point in chart.series[0].points] for name in ("wait", "run"))
    assert sum(each.count for each in waits) == 6
    assert sum(each.count for each in runs) == 7


async def test_figures_are_divided_by_definition(bench: Bench) -> None:
    await run_a_mix(bench)
    await add_up(bench)
    chart = await series.read(bench.store, ACME, "15m", By.DEFINITION)
    assert {each.key: total(each).get("succeeded", 0) for each in chart.series} == {"report": 2, "email": 1}


async def test_the_busiest_tenants_and_the_others_make_the_total(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(timedelta(seconds=2))
    await bench.succeed(claim)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    await add_up(bench)
    chart = await series.read(bench.store, None, "15m", By.TENANT, most=1)
    (everything,) = (await series.read(bench.store, None, "15m")).series
    assert [each.key for each in chart.series] == [ACME]
    assert chart.others is not None
    both = Counter(total(chart.series[0])) + Counter(total(chart.others))
    assert both == total(everything)
    assert both["enqueued"] > 1


async def test_a_duration_is_in_its_bucket(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(timedelta(seconds=10))
    await bench.succeed(claim)
    await add_up(bench)
    chart = await series.read(bench.store, ACME, "15m")
    run = next(point.run for point in chart.series[0].points if point.run.count)
    assert run == Histogram({14: 1})
    assert 8.192 < (run.percentile(0.95) or 0) <= 16.384


async def test_jobs_that_wait_are_sampled(bench: Bench) -> None:
    await bench.enqueue_many(3)
    await bench.enqueue(delay=HOUR)
    await bench.claim_one()
    await add_up(bench)
    chart = await series.read(bench.store, ACME, "15m")
    depths = [point.depths for point in chart.series[0].points if any(point.depths.values())]
    assert depths == [{"ready": 2, "running": 1, "retrying": 0, "scheduled": 1}]


async def test_minutes_become_hours_and_are_counted_once(bench: Bench) -> None:
    await bench.succeeded()
    await add_up(bench)
    await bench.succeeded()
    await bench.move_clock(HOUR)
    await add_up(bench)
    chart = await series.read(bench.store, ACME, "7d")
    assert chart.window.step == 7200
    assert total(chart.series[0]) == {"enqueued": 2, "started": 2, "succeeded": 2}


async def test_old_minutes_are_pruned_and_hours_stay(bench: Bench) -> None:
    await bench.succeeded()
    await bench.move_clock(HOUR)
    await add_up(bench)
    await bench.move_clock(timedelta(hours=49))
    await bench.store.prune(1000)
    recent = await series.read(bench.store, ACME, "48h")
    older = await series.read(bench.store, ACME, "7d")
    assert total(recent.series[0]) == {}
    assert total(older.series[0])["succeeded"] == 1


async def test_a_window_has_at_most_five_hundred_points(bench: Bench) -> None:
    await add_up(bench)
    for length in ("15m", "1h", "6h", "24h", "48h", "7d", "30d", "399d", "7h"):
        chart = await series.read(bench.store, ACME, length)
        assert len(chart.series[0].points) <= 500
    with pytest.raises(InvalidInput, match="can't be shown"):
        await series.read(bench.store, ACME, "401d")


async def test_one_tenant_is_not_divided_by_tenant(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="can't be divided by tenant"):
        await series.read(bench.store, ACME, "1h", By.TENANT)

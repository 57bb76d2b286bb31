"""The counts of a process: bounded names, durations in buckets, and the state of the fleet."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from tests.model.claims import a_claim

from leasehold.app.process_status import FleetFigures, MetricsCollector, render_once
from leasehold.errors import Unreachable
from leasehold.model.fleet_snapshot import DatabaseHealth, FleetSnapshot, read_snapshot
from leasehold.model.job import Source, tenant_id
from leasehold.model.outcome import SUCCEEDED, Raised, Succeeded, decide
from leasehold.telemetry import AttemptEnd, JobEnqueued, LoopLag
from leasehold.telemetry.metric_table import METRICS
from leasehold.telemetry.metrics import BOUNDS, Durations, Metrics, RecentGreatest

NOW = datetime.now(UTC)
FLEET = FleetSnapshot(
    2.0,
    {("acme", "ready"): 5, ("acme", "running"): 1, ("globex", "ready"): 3, (None, "ready"): 2},
    {("report", "ready"): 9, ("report", "retrying"): 1, ("report", "running"): 1, ("email", "ready"): 1},
    {"report": 30.0, "email": 90.0},
    workers=2,
    slots=20,
    unserved=["old"],
    overdue=0.0,
    database=DatabaseHealth(1.5, {"jobs": 7}, {"jobs": 11}, 0.25, 9, 100),
)


def enqueued(definition: str, count: int = 1, created: int | None = None) -> JobEnqueued:
    made = count if created is None else created
    values = {"definition": definition, "count": count, "created": made, "source": Source.MANUAL}
    return JobEnqueued(at=NOW, tenant=tenant_id("acme"), **values)  # type: ignore[arg-type]


def success_of(tenant: str) -> AttemptEnd:
    return a_claim(tenant=tenant), SUCCEEDED, 0.1, Succeeded()


def failure_of(tenant: str) -> AttemptEnd:
    claim, outcome = a_claim(tenant=tenant), Raised("Unlucky", "no luck", final=True)
    return claim, decide(outcome, claim, 0.0), 0.1, outcome


def lines(metrics: Metrics, fleet: FleetSnapshot | None = None) -> list[str]:
    _, text = render_once(MetricsCollector(metrics, FleetFigures(lambda: fleet)), "")
    return text.decode().splitlines()


def test_definitions_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics(definitions=2)
    for definition in ("a", "b", "c", "d", "a"):
        metrics(enqueued(definition))
    found = [line for line in lines(metrics) if line.startswith("leasehold_enqueued_total")]
    assert found == [
        'leasehold_enqueued_total{job_type="a",source="manual"} 2.0',
        'leasehold_enqueued_total{job_type="b",source="manual"} 1.0',
        'leasehold_enqueued_total{job_type="other",source="manual"} 2.0',
    ]


def test_ends_of_tenants_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics(tenants=1)
    for tenant in ("small", "large", "large", "third", "small"):
        metrics.on_ends([success_of(tenant), failure_of(tenant)])
    found = [line for line in lines(metrics) if line.startswith("leasehold_jobs_ended_total{")]
    assert found == [
        'leasehold_jobs_ended_total{status="succeeded",tenant="small"} 2.0',
        'leasehold_jobs_ended_total{status="failed",tenant="small"} 2.0',
        'leasehold_jobs_ended_total{status="succeeded",tenant="other"} 3.0',
        'leasehold_jobs_ended_total{status="failed",tenant="other"} 3.0',
    ]


def test_an_enqueue_that_made_no_job_is_a_duplicate() -> None:
    metrics = Metrics()
    metrics(enqueued("report", count=5, created=3))
    assert 'leasehold_enqueued_total{job_type="report",source="manual"} 3.0' in lines(metrics)
    assert 'leasehold_duplicates_total{job_type="report"} 2.0' in lines(metrics)


def test_tenants_with_the_fewest_jobs_are_added_up() -> None:
    found = [line for line in lines(Metrics(tenants=1), FLEET) if line.startswith("leasehold_queue_depth{")]
    assert sorted(found) == [
        'leasehold_queue_depth{status="ready",tenant="acme"} 5.0',
        'leasehold_queue_depth{status="ready",tenant="other"} 5.0',
        'leasehold_queue_depth{status="running",tenant="acme"} 1.0',
    ]


def test_the_depth_of_a_definition_has_all_queued_jobs() -> None:
    found = lines(Metrics(), FLEET)
    assert 'job_queue_depth{job_type="report"} 10.0' in found
    assert 'leasehold_oldest_queued_seconds{job_type="email"} 90.0' in found
    assert "leasehold_database_notification_queue_ratio 0.25" in found


def test_the_oldest_wait_of_many_definitions_is_the_longest() -> None:
    found = [line for line in lines(Metrics(definitions=1), FLEET) if line.startswith("leasehold_oldest")]
    assert found == [
        'leasehold_oldest_queued_seconds{job_type="email"} 90.0',
        'leasehold_oldest_queued_seconds{job_type="other"} 30.0',
    ]


def test_figures_that_were_stored_are_read_as_they_were() -> None:
    assert read_snapshot(FLEET.as_document(), 2.0) == FLEET


@pytest.mark.parametrize("seconds", [0.0, BOUNDS[0], BOUNDS[3] + 1e-9, BOUNDS[-1] + 1])
def test_a_duration_falls_into_the_first_bucket_that_holds_it(seconds: float) -> None:
    durations = Durations()
    durations.add(seconds)
    bucket = durations.buckets.index(1)
    assert bucket == len(BOUNDS) or seconds <= BOUNDS[bucket]
    assert bucket == 0 or seconds > BOUNDS[bucket - 1]


@given(st.lists(st.lists(st.sampled_from([*BOUNDS, 0.0, 1e-3 + 1e-9, 0.3, 1e9]), max_size=5), max_size=4))
def test_a_batch_of_durations_counts_as_each_of_them(batches: list[list[float]]) -> None:
    together, alone = Durations(), Durations()
    for batch in batches:
        together.add_all(batch)
        for seconds in batch:
            alone.add(seconds)
    assert together.buckets == alone.buckets
    assert together.sum == pytest.approx(alone.sum)


def test_the_lag_of_the_loop_is_the_greatest_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("leasehold.telemetry.metrics.monotonic", lambda: now)
    recent = RecentGreatest()
    recent.add(2.0)
    recent.add(0.1)
    assert recent.greatest() == 2.0
    now = 31.0
    recent.add(0.5)
    assert recent.greatest() == 2.0
    now = 200.0
    assert recent.greatest() == 0.0


def test_metrics_are_shown_while_the_database_is_away() -> None:
    def ask() -> FleetSnapshot:
        raise Unreachable("the database is away.", fix="Wait.")

    metrics = Metrics()
    metrics(LoopLag(at=NOW, worker="w", seconds=0.5))  # type: ignore[arg-type]
    _, text = render_once(MetricsCollector(metrics, FleetFigures(ask)), "")
    assert b"leasehold_event_loop_lag_seconds 0.5" in text
    assert b"leasehold_fleet_workers" not in text


def test_a_registry_reads_no_database_when_the_collector_is_registered() -> None:
    asked: list[str] = []
    registry = CollectorRegistry()
    registry.register(MetricsCollector(Metrics(), FleetFigures(lambda: asked.append("asked"))))
    assert not asked
    generate_latest(registry)
    assert asked


def test_every_name_is_unique_and_every_counter_ends_with_total() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for metric in METRICS)


def test_the_documentation_has_the_table_of_all_metrics() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md").read_text()
    shown = re.findall(r"^\| `((?:job|leasehold)_\w+)` \| (\w+) \| (.*?) ?\| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert shown == [
        (
            metric.name,
            metric.kind.value,
            ", ".join(f"`{each}`" for each in metric.labels),
            metric.about.value,
            metric.help,
        )
        for metric in METRICS
    ]


def test_every_metric_is_compared_with_what_happened() -> None:
    """By its name, or by that of a sample of a histogram, in the tests that make things happen."""
    tests = Path(__file__).parents[1]
    files = [*tests.glob("both_engines/test_metrics*.py"), tests / "postgres/test_database_health.py"]
    calls = re.compile(r'\b(?:total|count)\(\s*"(\w+?)(?:_count|_sum|_bucket)?"')
    compared = {name for file in files for name in calls.findall(file.read_text())}
    assert {metric.name for metric in METRICS} - compared == set()


def test_a_tenant_named_other_is_added_to_the_rest() -> None:
    fleet = replace(FLEET, by_tenant={("other", "ready"): 5, (None, "ready"): 2})
    found = [line for line in lines(Metrics(), fleet) if line.startswith("leasehold_queue_depth{")]
    assert found == ['leasehold_queue_depth{status="ready",tenant="other"} 7.0']

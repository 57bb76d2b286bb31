"""Makes Prometheus metrics of counts, at the moment at which they are read. Needs the package prometheus-client."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from leasehold.model.fleet_snapshot import FleetSnapshot, keep_largest
from leasehold.model.status import Status
from leasehold.telemetry.metric_table import METRICS, Kind
from leasehold.telemetry.metrics import BOUNDS, OTHER, DefinitionCounts, Durations, Metrics, ProcessState

_TABLE = {metric.name: metric for metric in METRICS}
_FAMILIES = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}
_COMPLETED = {
    Status.SUCCEEDED.value: "success",
    Status.FAILED.value: "failed",
    Status.DEAD_LETTER.value: "dead",
}
_BOUNDS = [*map(str, BOUNDS), "+Inf"]
_QUEUED_STATES = frozenset({"ready", "retrying", "scheduled"})

Sample = tuple[tuple[str, ...], Any]


def families_of_process(metrics: Metrics, worker_id: str, version: str) -> Iterator[Metric]:
    """Yields what this process has counted."""
    with metrics.lock:
        yield from [
            *_of_definitions(metrics, worker_id),
            *_of_process(metrics),
            _family("leasehold_info", [((version,), 1)]),
        ]


def families_of_state(state: ProcessState) -> Iterator[Metric]:
    yield _family("leasehold_ready", _one(int(not state.problems)))
    if state.slots is not None:
        yield _family("leasehold_worker_slots", _one(state.slots))
        yield _family("leasehold_worker_running", _one(state.running))
        yield _family("leasehold_worker_stuck", _one(state.stuck))
        yield _family("leasehold_worker_listens", _one(int(state.listens)))


def families_of_fleet(fleet: FleetSnapshot, tenants: int, definitions: int) -> Iterator[Metric]:
    """Yields the figures of the whole fleet. The tenants with fewest jobs are added up as `other`."""
    queued: Counter[str] = Counter()
    for (definition, state), jobs in fleet.by_definition.items():
        queued[definition] += jobs if state in _QUEUED_STATES else 0
    by_tenant = keep_largest(fleet.by_tenant, tenants)
    yield _family("job_queue_depth", _bounded(queued, definitions, sum))
    yield _family("leasehold_oldest_queued_seconds", _bounded(fleet.oldest, definitions, max))
    depths: Counter[tuple[str, str]] = Counter()  # a tenant may be named `other`
    for (tenant, state), jobs in by_tenant.items():
        depths[OTHER if tenant is None else tenant, state] += jobs
    yield _family("leasehold_queue_depth", list(depths.items()))
    yield _family("leasehold_fleet_workers", _one(fleet.workers))
    yield _family("leasehold_fleet_slots", _one(fleet.slots))
    yield _family("leasehold_unserved_definitions", _one(len(fleet.unserved)))
    yield _family("leasehold_schedule_overdue_seconds", _one(fleet.overdue))
    yield _family("leasehold_snapshot_age_seconds", _one(fleet.age))
    if (database := fleet.database) is not None:
        yield _family("leasehold_database_oldest_transaction_seconds", _one(database.oldest_transaction))
        yield _family("leasehold_database_dead_rows", _each(database.dead_rows))
        yield _family("leasehold_database_live_rows", _each(database.live_rows))
        yield _family("leasehold_database_notification_queue_ratio", _one(database.notification_queue))
        yield _family("leasehold_database_connections", _one(database.connections))
        yield _family("leasehold_database_max_connections", _one(database.max_connections))


def _of_definitions(metrics: Metrics, worker_id: str) -> Iterator[Metric]:
    known = metrics.definitions

    def each(name: str, read: Callable[[DefinitionCounts], Any]) -> Metric:
        return _family(name, [((key,), read(counts)) for key, counts in known.items()])

    def by(name: str, read: Callable[[DefinitionCounts], Mapping[Any, int]]) -> Metric:
        return _family(name, [((key, str(w)), n) for key, counts in known.items() for w, n in read(counts).items()])

    yield _family("job_claimed_total", [((key, worker_id), counts.claimed) for key, counts in known.items()])
    yield by("job_completed_total", lambda counts: {word: counts.ends[end] for end, word in _COMPLETED.items()})
    yield each("job_processing_seconds", lambda counts: counts.runs)
    yield each("leasehold_queue_latency_seconds", lambda counts: counts.waits)
    yield by("leasehold_enqueued_total", lambda counts: counts.enqueued)
    yield each("leasehold_duplicates_total", lambda counts: counts.duplicates)
    yield by("leasehold_attempts_total", lambda counts: counts.attempts)
    yield each("leasehold_retries_total", lambda counts: counts.retries)
    yield each("leasehold_leases_reclaimed_total", lambda counts: counts.reclaimed)
    yield each("leasehold_leases_lost_total", lambda counts: counts.leases_lost)
    yield each("leasehold_finishes_refused_total", lambda counts: counts.finishes_refused)
    yield each("leasehold_event_loop_blocked_total", lambda counts: counts.loop_blocked)


def _of_process(metrics: Metrics) -> Iterator[Metric]:
    ended = [((name, str(end)), n) for name, ends in metrics.tenants.items() for end, n in ends.items()]
    yield _family("leasehold_jobs_ended_total", ended)
    yield _family("job_notification_received_total", _each(metrics.wakes))
    yield _family("leasehold_polls_total", _each(metrics.polls))
    yield _family("leasehold_trigger_decisions_total", _each(metrics.decisions))
    yield _family("leasehold_scheduler_lag_seconds", _one(metrics.schedule_lag))
    for name, value in {
        "job_poll_scanned_total": metrics.polled_jobs,
        "leasehold_events_emitted_total": metrics.events_emitted,
        "leasehold_heartbeats_late_total": metrics.heartbeats_late,
        "leasehold_registrations_lost_total": metrics.registrations_lost,
        "leasehold_listener_lost_total": metrics.listeners_lost,
        "leasehold_database_outages_total": metrics.outages,
        "leasehold_database_outage_seconds_total": metrics.outage_seconds,
        "leasehold_event_loop_lag_seconds": metrics.loop_lag.greatest(),
        "leasehold_event_loop_blocked_seconds_total": metrics.blocked_seconds,
    }.items():
        yield _family(name, _one(value))


def _family(name: str, samples: Iterable[Sample]) -> Metric:
    """Makes a metric as the table describes it."""
    described = _TABLE[name]
    family: Any = _FAMILIES[described.kind](name, described.help, labels=described.labels)
    for labels, value in samples:
        if isinstance(value, Durations):
            cumulative = accumulate(value.buckets)
            family.add_metric(labels, buckets=list(zip(_BOUNDS, cumulative, strict=True)), sum_value=value.sum)
        else:
            family.add_metric(labels, value)
    made: Metric = family
    return made


def _one(value: Any) -> list[Sample]:
    return [((), value)]


def _each(values: Mapping[str, Any]) -> list[Sample]:
    return [((str(key),), value) for key, value in values.items()]


def _bounded(values: Mapping[str, Any], most: int, merge: Callable[[Iterable[Any]], Any]) -> list[Sample]:
    """Keeps the `most` greatest values by name, and merges the others."""
    ordered = sorted(values, key=lambda key: (-values[key], key))
    named, others = ordered[:most], ordered[most:]
    samples: list[Sample] = [((key,), values[key]) for key in named if key != OTHER]
    if rest := [values[key] for key in (*others, *({OTHER} & set(named)))]:
        samples.append(((OTHER,), merge(rest)))
    return samples

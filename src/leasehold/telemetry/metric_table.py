"""All metrics: names, kinds, labels and meanings, in one table. The documentation shows the same table."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class About(StrEnum):
    """The subject of a metric.

    PROCESS: each process counts for itself; add the processes up. FLEET: all processes show the same figures of the
    whole fleet; take the greatest. WORKER: a worker's process, or one with a worker in it.
    """

    PROCESS = "process"
    WORKER = "worker"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    labels: tuple[str, ...]
    about: About
    help: str


_C, _G, _H = Kind
_PROCESS, _WORKER, _FLEET = About
_TYPE = ("job_type",)

METRICS = (
    Metric("job_queue_depth", _G, _TYPE, _FLEET, "Queued jobs, due or not."),
    Metric("job_claimed_total", _C, ("job_type", "worker_id"), _WORKER, "Attempts that a worker has claimed."),
    Metric("job_completed_total", _C, ("job_type", "status"), _WORKER, "Jobs that ended: success, failed or dead."),
    Metric("job_processing_seconds", _H, _TYPE, _WORKER, "How long handlers ran."),
    Metric("job_notification_received_total", _C, ("channel",), _WORKER, "Notifications that a worker has received."),
    Metric("job_poll_scanned_total", _C, (), _WORKER, "Jobs that were found by polls, without a wake."),
    Metric("leasehold_queue_depth", _G, ("tenant", "status"), _FLEET, "Jobs that are not over, and dead letters."),
    Metric(
        "leasehold_oldest_queued_seconds", _G, _TYPE, _FLEET, "How long the oldest due job has waited for a worker."
    ),
    Metric("leasehold_enqueued_total", _C, ("job_type", "source"), _PROCESS, "Jobs that this process has enqueued."),
    Metric("leasehold_duplicates_total", _C, _TYPE, _PROCESS, "Enqueues that another job's dedupe key has refused."),
    Metric("leasehold_events_emitted_total", _C, (), _PROCESS, "Events that this process has emitted."),
    Metric("leasehold_queue_latency_seconds", _H, _TYPE, _WORKER, "From the enqueue of a job to its first claim."),
    Metric("leasehold_attempts_total", _C, ("job_type", "status"), _WORKER, "Attempts that ended."),
    Metric("leasehold_retries_total", _C, _TYPE, _WORKER, "Failed attempts whose job runs again."),
    Metric("leasehold_jobs_ended_total", _C, ("tenant", "status"), _WORKER, "Jobs that ended, by tenant."),
    Metric("leasehold_polls_total", _C, ("reason",), _WORKER, "Claims that a worker has asked for."),
    Metric("leasehold_heartbeats_late_total", _C, (), _WORKER, "Heartbeats that were answered late."),
    Metric("leasehold_leases_reclaimed_total", _C, _TYPE, _WORKER, "Attempts taken back from dead workers."),
    Metric("leasehold_leases_lost_total", _C, _TYPE, _WORKER, "Attempts whose lease this worker has lost."),
    Metric("leasehold_finishes_refused_total", _C, _TYPE, _WORKER, "Ends that came after the lease was lost."),
    Metric("leasehold_registrations_lost_total", _C, (), _WORKER, "Registrations that this worker has lost."),
    Metric("leasehold_listener_lost_total", _C, (), _WORKER, "How often a worker could not listen any more."),
    Metric("leasehold_database_outages_total", _C, (), _WORKER, "How often the database went away."),
    Metric("leasehold_database_outage_seconds_total", _C, (), _WORKER, "Seconds of outages that are over."),
    Metric("leasehold_trigger_decisions_total", _C, ("kind",), _PROCESS, "Decisions of triggers."),
    Metric("leasehold_scheduler_lag_seconds", _H, (), _PROCESS, "From the fire time of a schedule to its decision."),
    Metric("leasehold_event_loop_lag_seconds", _G, (), _WORKER, "How long a call waited for the event loop."),
    Metric("leasehold_event_loop_blocked_seconds_total", _C, (), _WORKER, "Seconds for which the loop was blocked."),
    Metric("leasehold_event_loop_blocked_total", _C, _TYPE, _WORKER, "How often a handler has blocked the loop."),
    Metric("leasehold_ready", _G, (), _WORKER, "1 if the process can do its work, as /ready tells."),
    Metric("leasehold_worker_slots", _G, (), _WORKER, "Jobs that the worker runs at once."),
    Metric("leasehold_worker_running", _G, (), _WORKER, "Jobs that the worker has claimed and not finished."),
    Metric("leasehold_worker_stuck", _G, (), _WORKER, "Handlers that still run although their attempts are over."),
    Metric("leasehold_worker_listens", _G, (), _WORKER, "1 if notifications wake the worker, 0 if it polls."),
    Metric("leasehold_fleet_workers", _G, (), _FLEET, "Live workers."),
    Metric("leasehold_fleet_slots", _G, (), _FLEET, "Slots of all live workers."),
    Metric("leasehold_unserved_definitions", _G, (), _FLEET, "Active definitions that no live worker serves."),
    Metric("leasehold_schedule_overdue_seconds", _G, (), _FLEET, "How late the next schedule is; 0: none is."),
    Metric("leasehold_snapshot_age_seconds", _G, (), _FLEET, "How old the figures of the fleet are."),
    Metric(
        "leasehold_database_oldest_transaction_seconds",
        _G,
        (),
        _FLEET,
        "Age of the oldest transaction. Postgres only.",
    ),
    Metric("leasehold_database_dead_rows", _G, ("table",), _FLEET, "Rows that vacuum has to remove. Postgres only."),
    Metric("leasehold_database_live_rows", _G, ("table",), _FLEET, "Rows, about. Postgres only."),
    Metric(
        "leasehold_database_notification_queue_ratio",
        _G,
        (),
        _FLEET,
        "Used part of the queue of NOTIFY. Postgres only.",
    ),
    Metric("leasehold_database_connections", _G, (), _FLEET, "Connections to the server. Postgres only."),
    Metric("leasehold_database_max_connections", _G, (), _FLEET, "Connections that it accepts. Postgres only."),
    Metric("leasehold_info", _G, ("version",), _PROCESS, "1; the version of this process."),
)

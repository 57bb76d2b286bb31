"""The worker: waits, claims, runs, decides, finishes. Knows no engine."""

from leasehold.worker.handlers import Handler, Handlers
from leasehold.worker.job import Job
from leasehold.worker.outcomes import Fail, RetryLater, Snooze
from leasehold.worker.settings import WorkerSettings
from leasehold.worker.state import WorkerState
from leasehold.worker.tick import Ticked, tick
from leasehold.worker.worker import Worker

__all__ = [
    "Fail",
    "Handler",
    "Handlers",
    "Job",
    "RetryLater",
    "Snooze",
    "Ticked",
    "Worker",
    "WorkerSettings",
    "WorkerState",
    "tick",
]

"""The worker: waits, claims, runs, decides, finishes. Knows no engine."""

from leasehold.worker.handlers import Handler, Handlers
from leasehold.worker.job import Fail, Job, RetryLater, Snooze
from leasehold.worker.tick import Ticked, tick
from leasehold.worker.worker import Worker, WorkerSettings

__all__ = ["Fail", "Handler", "Handlers", "Job", "RetryLater", "Snooze", "Ticked", "Worker", "WorkerSettings", "tick"]

"""Durable background jobs for multi-tenant Python apps, in the Postgres you already run.

Everything here is public and stays; everything else may move.
"""

from leasehold.app import Enqueued, EnqueuedMany, Leasehold, Tenant, TypedDefinition
from leasehold.config import VERSION
from leasehold.errors import (
    Conflict,
    DuplicateJob,
    InvalidInput,
    LeaseholdError,
    PartlyEnqueued,
    PayloadInvalid,
    UnknownJob,
    Unreachable,
    WrongState,
)
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.dedupe import Always, WhileActive, Within
from leasehold.model.definition import Retention
from leasehold.model.job import JobRecord, NewJob
from leasehold.model.status import DisplayState, Status
from leasehold.store import CancelAnswer
from leasehold.worker import Fail, Job, RetryLater, Snooze, WorkerSettings
from leasehold.worker.heartbeat import Leases

__version__ = VERSION

__all__ = [
    "Always",
    "CancelAnswer",
    "Conflict",
    "DisplayState",
    "DuplicateJob",
    "Enqueued",
    "EnqueuedMany",
    "Exponential",
    "Fail",
    "InvalidInput",
    "Job",
    "JobRecord",
    "Leasehold",
    "LeaseholdError",
    "Leases",
    "NewJob",
    "PartlyEnqueued",
    "PayloadInvalid",
    "Retention",
    "RetryLater",
    "Snooze",
    "Status",
    "Steps",
    "Tenant",
    "TypedDefinition",
    "UnknownJob",
    "Unreachable",
    "WhileActive",
    "Within",
    "WorkerSettings",
    "WrongState",
    "__version__",
]

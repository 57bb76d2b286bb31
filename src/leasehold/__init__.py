"""Durable background jobs for multi-tenant Python apps, in the Postgres you already run.

Everything here is public and stays; everything else may move.
"""

from leasehold.app import Enqueued, Leasehold, Tenant, TypedDefinition
from leasehold.config import VERSION
from leasehold.errors import (
    Conflict,
    DuplicateJob,
    InvalidInput,
    LeaseholdError,
    PayloadInvalid,
    UnknownJob,
    Unreachable,
    WrongState,
)
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.dedupe import Always, WhileActive, Within
from leasehold.model.definition import Retention
from leasehold.model.job import JobRecord
from leasehold.model.status import Status
from leasehold.worker import Fail, Job, RetryLater, Snooze, WorkerSettings

__version__ = VERSION

__all__ = [
    "Always",
    "Conflict",
    "DuplicateJob",
    "Enqueued",
    "Exponential",
    "Fail",
    "InvalidInput",
    "Job",
    "JobRecord",
    "Leasehold",
    "LeaseholdError",
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

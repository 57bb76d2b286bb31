"""Durable background jobs for multi-tenant Python apps, in the Postgres you already run.

Names in `__all__` are public and stable; all other modules may change.
"""

from leasehold.app import Enqueued, EnqueuedMany, JobReader, Leasehold, Tenant, TenantTriggers, TypedDefinition
from leasehold.compat import EnqueueJobInput, JobsRepository
from leasehold.config import VERSION
from leasehold.errors import (
    ChangedMeanwhile,
    Conflict,
    DuplicateJob,
    IdReused,
    InvalidInput,
    JobFailed,
    LeaseholdError,
    NoSecretKey,
    NotAuthenticated,
    NotInTransaction,
    PartlyEnqueued,
    PayloadInvalid,
    ResultTimeout,
    TransactionConflict,
    UnknownJob,
    UnknownTrigger,
    Unreachable,
    WrongState,
)
from leasehold.model.access import Permission, Principal, Role
from leasehold.model.backoff import OUTBOX, SCHEDULED, SMALL_TEAM, Exponential, Preset, Steps
from leasehold.model.command import ResourceLimits
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.dedupe import Always, WhileActive, Within
from leasehold.model.definition import Retention
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Check, CheckState, Explanation
from leasehold.model.job import Attempt, JobRecord, LineKind, NewJob, Source
from leasehold.model.keyring import new_secret_key
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.preview import Preview
from leasehold.model.schedule import CatchUp, Every, every
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.model.trigger import ALL, Trigger
from leasehold.model.usage import Usage, UsageRow
from leasehold.operations.events import TriggerTest
from leasehold.operations.reading import JobLine, JobPage, LinePage
from leasehold.runtime.redacted_logs import RedactionFilter
from leasehold.store import CancelAnswer
from leasehold.worker import Fail, Job, RetryLater, Snooze, Ticked, WorkerSettings
from leasehold.worker.heartbeat import Leases

__version__ = VERSION

__all__ = [
    "ALL",
    "OUTBOX",
    "SCHEDULED",
    "SMALL_TEAM",
    "Always",
    "Attempt",
    "AttemptStatus",
    "CancelAnswer",
    "CatchUp",
    "ChangedMeanwhile",
    "Check",
    "CheckState",
    "Conflict",
    "Cron",
    "Decision",
    "DecisionKind",
    "DisplayState",
    "DuplicateJob",
    "Emitted",
    "EnqueueJobInput",
    "Enqueued",
    "EnqueuedMany",
    "Every",
    "Explanation",
    "Exponential",
    "Fail",
    "IdReused",
    "InvalidInput",
    "Job",
    "JobFailed",
    "JobLine",
    "JobPage",
    "JobReader",
    "JobRecord",
    "JobsRepository",
    "Leasehold",
    "LeaseholdError",
    "Leases",
    "Limits",
    "LineKind",
    "LinePage",
    "NewJob",
    "NoSecretKey",
    "NotAuthenticated",
    "NotInTransaction",
    "PartlyEnqueued",
    "Pause",
    "PayloadInvalid",
    "Permission",
    "Preset",
    "Preview",
    "Principal",
    "RedactionFilter",
    "ResourceLimits",
    "ResultTimeout",
    "Retention",
    "RetryLater",
    "Role",
    "Scope",
    "ScopeKind",
    "Snooze",
    "Source",
    "Status",
    "Steps",
    "Tenant",
    "TenantTriggers",
    "Ticked",
    "TransactionConflict",
    "Trigger",
    "TriggerTest",
    "TypedDefinition",
    "UnknownJob",
    "UnknownTrigger",
    "Unreachable",
    "Usage",
    "UsageRow",
    "WhileActive",
    "Within",
    "WorkerSettings",
    "WrongState",
    "__version__",
    "every",
    "new_secret_key",
]

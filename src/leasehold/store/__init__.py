"""The seam: everything that workers, tenants' handles and administrators need of an engine, and no more.

Engines implement these Protocols and pass one conformance suite. Where engines honestly differ, `Abilities` says so.
Every verb that writes for an attempt takes the Claim and is fenced by it: job, attempt, worker and batch must all
still match. Only the engine's clock judges whether a job is due, a lease has run out or a retention is over.
"""

from typing import Protocol

from leasehold.store.abilities import Abilities
from leasehold.store.activity import Activity, ActivityStore, LaneActivity
from leasehold.store.administration import Administration, PayloadPage, ScopeRecord, StoredPayload, TenantUsage
from leasehold.store.audit import AuditFilter, AuditLog, AuditPage
from leasehold.store.changes import Changed, ChangeStore, ChangeWatcher, Watched
from leasehold.store.error_groups import ErrorGroup, ErrorGroups
from leasehold.store.events import Emission, KeyHolder, MatchingTriggers, TenantEvents
from leasehold.store.fleet import (
    Claimed,
    DueWork,
    Fleet,
    NextFire,
    Registration,
    Renewal,
    Subscription,
    Wake,
    WorkerFacts,
    WorkerRecord,
)
from leasehold.store.fleet_snapshot import SnapshotStore
from leasehold.store.operations import (
    Looked,
    NewOperation,
    Operation,
    OperationPage,
    OperationStore,
    Removed,
    SeenJob,
    Stepped,
)
from leasehold.store.saved_views import SavedView, SavedViews
from leasehold.store.series import SeriesStore
from leasehold.store.sessions import Sessions
from leasehold.store.tenant_jobs import CancelAnswer, Filter, Page, RescheduleAnswer, RetryAnswer, TenantJobs
from leasehold.store.tokens import Tokens, TokenStore
from leasehold.store.traits import Traits
from leasehold.store.transactions import (
    AsyncFinishingTransaction,
    BlockingFinishingTransaction,
    BulkTransaction,
    Caller,
    FinishAnswer,
    FinishingTransaction,
    Prepared,
)
from leasehold.store.triggers import (
    AllTriggers,
    Decided,
    DeclaredTrigger,
    FireRound,
    Schedules,
    TriggerChange,
    Triggers,
    TriggerStore,
)
from leasehold.store.usage import UsageStore

__all__ = [
    "Abilities",
    "Activity",
    "ActivityStore",
    "Administration",
    "AllTriggers",
    "AsyncFinishingTransaction",
    "AuditFilter",
    "AuditLog",
    "AuditPage",
    "BlockingFinishingTransaction",
    "BulkTransaction",
    "Caller",
    "CancelAnswer",
    "ChangeStore",
    "ChangeWatcher",
    "Changed",
    "Claimed",
    "Decided",
    "DeclaredTrigger",
    "DueWork",
    "Emission",
    "ErrorGroup",
    "ErrorGroups",
    "Filter",
    "FinishAnswer",
    "FinishingTransaction",
    "FireRound",
    "Fleet",
    "KeyHolder",
    "LaneActivity",
    "Looked",
    "MatchingTriggers",
    "NewOperation",
    "NextFire",
    "Operation",
    "OperationPage",
    "OperationStore",
    "Page",
    "PayloadPage",
    "Prepared",
    "Registration",
    "Removed",
    "Renewal",
    "RescheduleAnswer",
    "RetryAnswer",
    "SavedView",
    "SavedViews",
    "Schedules",
    "ScopeRecord",
    "SeenJob",
    "SeriesStore",
    "Sessions",
    "SnapshotStore",
    "Stepped",
    "Store",
    "StoredPayload",
    "Subscription",
    "TenantEvents",
    "TenantJobs",
    "TenantUsage",
    "TokenStore",
    "Tokens",
    "Traits",
    "TriggerChange",
    "TriggerStore",
    "Triggers",
    "UsageStore",
    "Wake",
    "Watched",
    "WorkerFacts",
    "WorkerRecord",
]


class Store(
    Fleet,
    Administration,
    TriggerStore,
    SeriesStore,
    UsageStore,
    ActivityStore,
    SnapshotStore,
    TokenStore,
    ChangeStore,
    Protocol,
):
    """An open engine."""

    @property
    def operations(self) -> OperationStore: ...

    async def close(self) -> None: ...

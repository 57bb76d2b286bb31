"""The seam: everything that workers, tenants' handles and administrators need of an engine, and no more.

Engines implement these Protocols and pass one conformance suite. Where engines honestly differ, `Abilities` says so.
Every verb that writes for an attempt takes the Claim and is fenced by it: job, attempt, worker and batch must all
still match. Only the engine's clock judges whether a job is due, a lease has run out or a retention is over.
"""

from typing import Protocol

from leasehold.store.abilities import Abilities
from leasehold.store.administration import Administration, PayloadPage, ScopeRecord, StoredPayload
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
from leasehold.store.tenant_jobs import CancelAnswer, Filter, Page, RescheduleAnswer, RetryAnswer, TenantJobs
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
    DeclaredTrigger,
    FireRound,
    Schedules,
    TriggerChange,
    Triggers,
    TriggerStore,
)

__all__ = [
    "Abilities",
    "Administration",
    "AllTriggers",
    "AsyncFinishingTransaction",
    "BlockingFinishingTransaction",
    "BulkTransaction",
    "Caller",
    "CancelAnswer",
    "Claimed",
    "DeclaredTrigger",
    "DueWork",
    "Emission",
    "Filter",
    "FinishAnswer",
    "FinishingTransaction",
    "FireRound",
    "Fleet",
    "KeyHolder",
    "MatchingTriggers",
    "NextFire",
    "Page",
    "PayloadPage",
    "Prepared",
    "Registration",
    "Renewal",
    "RescheduleAnswer",
    "RetryAnswer",
    "Schedules",
    "ScopeRecord",
    "Store",
    "StoredPayload",
    "Subscription",
    "TenantEvents",
    "TenantJobs",
    "TriggerChange",
    "TriggerStore",
    "Triggers",
    "Wake",
    "WorkerFacts",
    "WorkerRecord",
]


class Store(Fleet, Administration, TriggerStore, Protocol):
    """An open engine."""

    async def close(self) -> None: ...

"""The seam: everything that workers, tenants' handles and administrators need of an engine, and no more.

Engines implement these Protocols and pass one conformance suite. Where engines honestly differ, `Abilities` says so.
Every verb that writes for an attempt takes the Claim and is fenced by it: job, attempt, worker and batch must all
still match. Only the engine's clock judges whether a job is due, a lease has run out or a retention is over.
"""

from typing import Protocol

from leasehold.store.abilities import Abilities
from leasehold.store.administration import Administration, ScopeRecord
from leasehold.store.fleet import (
    Claimed,
    DueWork,
    Fleet,
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

__all__ = [
    "Abilities",
    "Administration",
    "AsyncFinishingTransaction",
    "BlockingFinishingTransaction",
    "BulkTransaction",
    "Caller",
    "CancelAnswer",
    "Claimed",
    "DueWork",
    "Filter",
    "FinishAnswer",
    "FinishingTransaction",
    "Fleet",
    "Page",
    "Prepared",
    "Registration",
    "Renewal",
    "RescheduleAnswer",
    "RetryAnswer",
    "ScopeRecord",
    "Store",
    "Subscription",
    "TenantJobs",
    "Wake",
    "WorkerFacts",
    "WorkerRecord",
]


class Store(Fleet, Administration, Protocol):
    """An open engine."""

    async def close(self) -> None: ...

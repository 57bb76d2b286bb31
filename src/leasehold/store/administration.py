"""Definitions, tenants, limits and pauses, and reads across tenants."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from leasehold.model.definition import Change, Definition, Registered
from leasehold.model.facts import LaneState
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.model.operation import OperationId
from leasehold.model.overrides import OverrideChange
from leasehold.model.status import Status
from leasehold.store.audit import AuditLog
from leasehold.store.error_groups import ErrorGroups
from leasehold.store.tenant_jobs import Filter, Page


@dataclass(frozen=True, slots=True)
class ScopeRecord:
    """A tenant or definition with its limit and its pause; None where it has none."""

    scope: Scope
    max_running: int | None
    paused_because: str | None
    paused_until: datetime | None
    paused_by: str | None = None


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """The belongings of a tenant. Jobs by status and triggers are counted up to the cap that was asked for.

    `deleted_by` is the operation that deletes it; None: nothing does.
    """

    tenant: TenantId
    created_at: datetime
    jobs: Mapping[Status, int]
    oldest_queued: datetime | None
    triggers: int
    max_running: int | None
    paused_because: str | None
    paused_until: datetime | None
    deleted_by: OperationId | None


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A job's payload as it is stored, with fields that look encrypted; and the schema of its version. JSON texts."""

    tenant: TenantId
    job: JobId
    definition: str
    payload: str
    schema: str | None


@dataclass(frozen=True, slots=True)
class PayloadPage:
    """The payloads with encrypted fields among the next jobs. `next` is None after the last job."""

    payloads: Sequence[StoredPayload]
    next: str | None


class Administration(Protocol):
    """Everything that no tenant may do."""

    @property
    def audit(self) -> AuditLog: ...

    def together(self) -> AbstractAsyncContextManager[None]:
        """Makes the calls of this task one transaction, if the engine can: then an entry is written with its change.

        Only for administration and for jobs of tenants; claims, finishes and enqueues have their own ways.
        """

    async def sync_definitions(self, found: Sequence[Definition], *, adopt: bool = True) -> Sequence[Change]:
        """Registers the definitions of the code, all or none. Returns one change for each, in the order given.

        Different content becomes a new version; if an older version has the same content, that one becomes current
        again. Waiting jobs keep their version. Overrides stay, and are part of the version. Without `adopt`, no
        version of a known definition becomes current: the caller only asks which versions its code has now.
        """

    async def override(
        self, key: str, change: OverrideChange, *, revision: int | None = None, create: bool = False
    ) -> Registered:
        """Sets and resets fields of a definition, in place of those of its code; returns it as it is then.

        With `create`, the definition must be new, and has defaults in place of code. Raises ChangedMeanwhile if it
        has another revision than the given one. Waiting jobs keep their version.
        """

    async def definitions(self) -> Sequence[Registered]: ...

    async def definition_version(self, key: str, version: int) -> Definition | None:
        """Returns the definition as it was in this version, which never changes; None if the version is unknown."""

    async def tenants(self, limit: int = 1000, after: TenantId | None = None) -> Sequence[TenantId]:
        """Returns the first `limit` tenants, by name; with `after`, those that follow it."""

    async def tenant_usage(self, tenant: TenantId, cap: int) -> TenantUsage | None:
        """Returns what a tenant has, by a bounded number of rows; None for a tenant that is not registered."""

    async def add_tenant(self, tenant: TenantId) -> bool:
        """Registers a tenant before its first job. Returns whether it is new."""

    async def strict_tenants(self) -> bool:
        """Returns whether enqueue refuses a tenant that was never registered."""

    async def set_strict_tenants(self, strict: bool) -> None:
        """Makes every enqueue refuse a tenant that was never registered, or register it at its first job again.

        Tenants that have enqueued before are registered.
        """

    async def find_all_tenants(self, where: Filter, cursor: str | None, limit: int) -> Page:
        """Finds jobs of all tenants, newest first; two jobs of one id by tenant.

        A page by a filter that no index serves looks at a bounded number of jobs: it may have fewer than `limit`,
        even none, and a `next`.
        """

    async def error_groups_of_tenants(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        """Returns up to `limit` error groups of all tenants; one group of each tenant that has it, with `only`."""

    async def jobs_with_id(self, job: JobId) -> Sequence[JobRecord]:
        """Returns the jobs of all tenants with this id, by tenant. More than one only if callers supplied the id."""

    async def encrypted_payloads(self, cursor: str | None, limit: int) -> PayloadPage:
        """Looks at the next `limit` jobs of all tenants, ended ones last, for payloads with encrypted fields."""

    async def replace_payloads(self, changes: Sequence[tuple[StoredPayload, str]]) -> int:
        """Replaces payloads that are still as they were read. Returns how many; passes over locked rows."""

    async def scopes(self, limit: int = 1000) -> Sequence[ScopeRecord]:
        """Returns the first `limit` tenants and definitions that have a limit or a pause now."""

    async def scope(self, scope: Scope) -> ScopeRecord:
        """Returns the limit and the pause that a scope has now."""

    async def now(self) -> datetime:
        """Returns the time of the engine's clock, which judges pauses and due times."""

    async def lanes(self, lanes: Sequence[tuple[str, TenantId]]) -> Sequence[LaneState]:
        """Returns the state of each lane (definition, tenant), in the order given, by one statement."""

    async def activate(self, definition: str, active: bool) -> None:
        """Sets whether a definition takes new jobs and starts waiting ones."""

    async def limit(self, scope: Scope, limits: Limits) -> None: ...

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        """Pauses a scope; None resumes it."""

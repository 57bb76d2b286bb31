"""Control: everything that a command reads or changes, wherever the queue is.

A method returns a record of the model where the document of the HTTP API has all fields of that record. Otherwise it
returns the document itself: definitions, charts and tests of events.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from leasehold.errors import NoTenant
from leasehold.model.access import Permission, Role
from leasehold.model.decision import Decision
from leasehold.model.event import Event
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Explanation
from leasehold.model.job import EnqueueResult, JobRecord, Source, TenantId
from leasehold.model.limits import Scope
from leasehold.model.operation import Pace
from leasehold.model.preview import Preview
from leasehold.model.schedule import Schedule
from leasehold.model.series import By
from leasehold.model.status import DisplayState, Status
from leasehold.model.token import TokenId, TokenRecord
from leasehold.model.trigger import NewTrigger, Trigger, TriggerId
from leasehold.operations.jobs import NumberedLine, Reasons, Story
from leasehold.operations.lookup import Address
from leasehold.operations.tenants import TenantPage
from leasehold.operations.triggers import Owner
from leasehold.store import (
    AuditFilter,
    AuditPage,
    NewOperation,
    Operation,
    OperationPage,
    Page,
    ScopeRecord,
    TenantUsage,
    WorkerRecord,
)
from leasehold.store.operations import Plan

Document = Mapping[str, Any]
"""A JSON document: times are texts, durations are seconds."""

COUNTED = 10_000
"""Jobs of a status are counted up to this number."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs are listed; a field that is empty or None matches all. `traits` are texts, as people write them."""

    states: frozenset[DisplayState] = frozenset()
    definitions: tuple[str, ...] = ()
    correlation_id: str | None = None
    source: Source | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    error_group: str | None = None
    traits: Mapping[str, str] = field(default_factory=dict)


class JobControl(Protocol):
    async def list(
        self, tenant: TenantId | None, query: JobQuery, cursor: str | None, limit: int
    ) -> tuple[Page, Reasons]: ...

    async def find(self, text: str, tenant: TenantId | None) -> Address:
        """Finds a job by its id or the end of it. Raises UnknownJob, InvalidInput."""

    async def get(self, job: Address) -> JobRecord: ...

    async def story(self, job: Address) -> Story: ...

    async def explain(self, job: Address) -> Explanation: ...

    async def tries(self, job: Address) -> tuple[JobRecord, Sequence[int]]:
        """Returns the job, and the tries that it had."""

    def lines(self, job: Address, only: int | None, *, follow: bool) -> AsyncGenerator[NumberedLine, None]:
        """Yields the log lines so far, of all tries or of one; with `follow`, also those that come until its end."""

    async def counts(self, tenant: TenantId) -> Mapping[Status, int]: ...

    async def enqueue(
        self, tenant: TenantId, key: str, payload: Mapping[str, Any], options: Mapping[str, Any]
    ) -> EnqueueResult:
        """Enqueues one job. Options are those of a tenant handle; None is left out."""

    async def wait(self, job: Address, limit: timedelta) -> JobRecord | None:
        """Returns the job once it is final, or as it stands when the limit is over; None if it is unknown."""

    async def cancel(self, job: Address) -> str: ...

    async def retry(self, job: Address) -> None: ...

    async def run_now(self, job: Address) -> None: ...


class OperationControl(Protocol):
    async def plan(self, new: NewOperation) -> Plan: ...

    async def begin(self, new: NewOperation) -> Operation: ...

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage: ...

    async def get(self, operation: str) -> Operation: ...

    async def abort(self, operation: str) -> Operation: ...

    def follow(self, operation: Operation) -> AsyncGenerator[Operation, None]:
        """Yields the operation from time to time until it has ended. A process with the database runs it, too."""


class DefinitionControl(Protocol):
    async def list(self) -> Sequence[Document]: ...

    async def details(self, key: str) -> Document: ...

    async def create(self, key: str, given: Mapping[str, Any]) -> Document: ...

    async def override(self, key: str, given: Mapping[str, Any], revision: int | None) -> Document: ...

    async def reset(self, key: str, fields: Sequence[str], revision: int | None) -> Document: ...

    async def set_active(self, key: str, active: bool) -> Document: ...


class TriggerControl(Protocol):
    async def list(self, owner: Owner | None, limit: int) -> Sequence[Trigger]: ...

    async def find(self, text: str, owner: Owner | None) -> Trigger: ...

    async def save(self, owner: Owner, rule: NewTrigger, created_by: str | None) -> Trigger: ...

    async def change(self, trigger: Trigger, changes: Mapping[str, Any]) -> Trigger: ...

    async def delete(self, trigger: Trigger, *, force: bool) -> None: ...

    async def restore(self, owner: Owner, trigger: TriggerId) -> Trigger: ...

    async def pause(self, trigger: Trigger, why: str, end: timedelta | datetime | None) -> Trigger: ...

    async def resume(self, trigger: Trigger) -> Trigger: ...

    async def preview(self, trigger: Trigger, count: int, viewer_zone: str) -> Preview: ...

    async def preview_schedule(self, schedule: Schedule, count: int, viewer_zone: str) -> Preview: ...

    async def decisions(self, trigger: Trigger, limit: int) -> Sequence[Decision]: ...


class EventControl(Protocol):
    async def emit(self, tenant: TenantId, name: str, data: Mapping[str, Any], options: Mapping[str, Any]) -> Emitted:
        """Emits an event. Options are those of a tenant handle; None is left out."""

    async def list(self, tenant: TenantId, limit: int, name: str | None) -> Sequence[Event]: ...

    async def test(self, tenant: TenantId, name: str, data: Mapping[str, Any]) -> Sequence[Document]: ...


class TenantControl(Protocol):
    async def list(self, cursor: str | None, limit: int) -> tuple[TenantPage, bool]:
        """Returns tenants by name, and whether jobs of others are refused."""

    async def change(self, new: TenantId | None, strict: bool | None) -> tuple[bool, bool]:
        """Registers a tenant, and sets strict tenants; None skips it. Returns whether it is new, and the setting."""

    async def usage(self, tenant: TenantId) -> TenantUsage: ...

    def export(self, tenant: TenantId) -> AsyncGenerator[Document, None]: ...

    async def delete(self, tenant: TenantId, pace: Pace | None) -> Operation: ...


class LimitControl(Protocol):
    async def list(self) -> Sequence[ScopeRecord]: ...

    async def limit(self, scope: Scope, max_running: int | None) -> None: ...

    async def pause(self, scope: Scope, why: str, length: timedelta | None) -> None: ...

    async def resume(self, scope: Scope) -> None: ...


class TokenControl(Protocol):
    async def create(
        self,
        name: str,
        role: Role,
        *,
        tenant: TenantId | None,
        permissions: frozenset[Permission] | None,
        definitions: tuple[str, ...] | None,
        life: timedelta,
    ) -> tuple[TokenRecord, str]: ...

    async def list(self, limit: int, tenant: TenantId | None) -> Sequence[TokenRecord]: ...

    async def rotate(self, token: TokenId, *, life: timedelta, overlap: timedelta) -> tuple[TokenRecord, str]: ...

    async def revoke(self, token: TokenId) -> TokenRecord: ...


class ViewControl(Protocol):
    async def list(self, tenant: TenantId | None) -> Sequence[Document]:
        """Returns one's own views of the list of jobs, and those that are shared: of a tenant, or of all tenants."""

    async def save(self, tenant: TenantId | None, name: str, query: str, *, shared: bool) -> Document: ...

    async def delete(self, tenant: TenantId | None, name: str, *, shared: bool) -> None: ...


class Control(Protocol):
    """A queue, as a command reaches it."""

    @property
    def jobs(self) -> JobControl: ...

    @property
    def operations(self) -> OperationControl: ...

    @property
    def definitions(self) -> DefinitionControl: ...

    @property
    def triggers(self) -> TriggerControl: ...

    @property
    def events(self) -> EventControl: ...

    @property
    def tenants(self) -> TenantControl: ...

    @property
    def limits(self) -> LimitControl: ...

    @property
    def tokens(self) -> TokenControl: ...

    @property
    def views(self) -> ViewControl: ...

    @property
    def hidden(self) -> Mapping[str, Permission]:
        """Fields that were not shown, and the permission that the token has not."""

    async def tenant(self, named: TenantId | None, missing: NoTenant) -> TenantId:
        """Returns the named tenant, or the one that the token is bound to. Raises `missing` if there is none."""

    async def workers(self) -> Sequence[WorkerRecord]: ...

    async def audit(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage: ...

    async def error_groups(self, tenant: TenantId | None) -> Document:
        """Returns the error groups of a tenant, or of all."""

    async def error_group(self, tenant: TenantId, group: str) -> Document: ...

    async def series(self, tenant: TenantId | None, window: str, by: By, definition: str | None) -> Document: ...

    async def activity(self) -> Document:
        """Returns what happens now: definitions, tenants and workers, and their rates."""

    async def usage(
        self, tenant: TenantId | None, since: str, until: str | None, by: str, definition: str | None
    ) -> Document:
        """Returns the usage of a tenant, or of all."""

"""DatabaseControl: the verbs of operations/, on the database of an app, for one administrator."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from leasehold.app import Leasehold
from leasehold.control.protocol import COUNTED, Document, JobQuery
from leasehold.errors import NoTenant
from leasehold.model.access import Permission, Principal, Role
from leasehold.model.audit import Actor
from leasehold.model.decision import Decision
from leasehold.model.event import Event
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Explanation
from leasehold.model.job import EnqueueResult, JobRecord, TenantId
from leasehold.model.limits import Scope
from leasehold.model.operation import Pace
from leasehold.model.preview import Preview
from leasehold.model.schedule import Schedule
from leasehold.model.series import By
from leasehold.model.status import Status
from leasehold.model.token import TokenId, TokenRecord
from leasehold.model.tries import first_attempt, try_numbers
from leasehold.model.trigger import NewTrigger, Trigger, TriggerId
from leasehold.operations import (
    activity,
    admin,
    audit,
    bulk,
    definitions,
    error_groups,
    events,
    jobs,
    saved_views,
    series,
    tenants,
    tokens,
    triggers,
    usage,
    views,
)
from leasehold.operations.definitions import Details
from leasehold.operations.explain import explain
from leasehold.operations.jobs import NumberedLine, Reasons, Story
from leasehold.operations.lookup import Address, as_filters, find_job
from leasehold.operations.tenants import TenantPage
from leasehold.operations.traits import read_traits
from leasehold.operations.triggers import Owner
from leasehold.store import (
    AuditFilter,
    AuditPage,
    ErrorGroup,
    NewOperation,
    Operation,
    OperationPage,
    Page,
    ScopeRecord,
    Store,
    TenantUsage,
    WorkerRecord,
)
from leasehold.store.operations import Plan


@dataclass(frozen=True, slots=True)
class _Topic:
    app: Leasehold
    actor: Actor

    @property
    def store(self) -> Store:
        return self.app.store


class Jobs(_Topic):
    async def list(
        self, tenant: TenantId | None, query: JobQuery, cursor: str | None, limit: int
    ) -> tuple[Page, Reasons]:
        others = {name: value for name, value in views.fields_of(query).items() if name not in ("states", "traits")}
        others["traits"] = read_traits(query.traits)
        return await jobs.list_page(self.store, tenant, as_filters(query.states, **others), cursor, limit)

    async def find(self, text: str, tenant: TenantId | None) -> Address:
        return await find_job(self.store, text, tenant)

    async def get(self, job: Address) -> JobRecord:
        return await jobs.get(self.store, job.tenant, job.job)

    async def story(self, job: Address) -> Story:
        return await jobs.story(self.store, job)

    async def explain(self, job: Address) -> Explanation:
        return await explain(self.store, job.tenant, job.job)

    async def tries(self, job: Address) -> tuple[JobRecord, Sequence[int]]:
        record = job.record or await self.get(job)
        attempts = await self.store.tenant(job.tenant).attempts(job.job)
        return record, list(try_numbers(attempts, first_attempt(record, attempts)).values())

    async def lines(self, job: Address, only: int | None, *, follow: bool) -> AsyncGenerator[NumberedLine, None]:
        record = job.record or await self.get(job)
        found = self.store.tenant(job.tenant)
        first = first_attempt(record, await found.attempts(job.job))
        read = jobs.follow_lines if follow else jobs.read_lines
        async with aclosing(read(found, job.job, only, first)) as lines:
            async for line in lines:
                yield line

    async def counts(self, tenant: TenantId) -> Mapping[Status, int]:
        return await jobs.counts(self.store, tenant, COUNTED)

    async def enqueue(
        self, tenant: TenantId, key: str, payload: Mapping[str, Any], options: Mapping[str, Any]
    ) -> EnqueueResult:
        placed = await self.app.tenant(tenant).options(**options).aenqueue_key(key, payload)
        return EnqueueResult(placed.id, placed.created, placed.replaced)

    async def wait(self, job: Address, limit: timedelta) -> JobRecord | None:
        return await jobs.wait(self.store, job.tenant, job.job, limit)

    async def cancel(self, job: Address) -> str:
        return await jobs.cancel(self.store, job.tenant, job.job, self.actor)

    async def retry(self, job: Address) -> None:
        await jobs.retry(self.store, job.tenant, job.job, self.actor)

    async def run_now(self, job: Address) -> None:
        await jobs.run_now(self.store, job.tenant, job.job, self.actor)


class Operations(_Topic):
    async def plan(self, new: NewOperation) -> Plan:
        return await bulk.plan(self.store, new)

    async def begin(self, new: NewOperation) -> Operation:
        return await bulk.begin(self.store, await bulk.plan(self.store, new), self.actor)

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
        return await bulk.list_page(self.store, tenant, cursor, limit)

    async def get(self, operation: str) -> Operation:
        return await bulk.get(self.store, operation)

    async def abort(self, operation: str) -> Operation:
        return await bulk.abort(self.store, operation, actor=self.actor)

    def follow(self, operation: Operation) -> AsyncGenerator[Operation, None]:
        return bulk.run(self.store, operation)


class Definitions(_Topic):
    async def list(self) -> Sequence[Document]:
        return [_plain(views.definition(each)) for each in await admin.definitions(self.store)]

    async def details(self, key: str) -> Document:
        return _details(await definitions.details(self.store, key))

    async def create(self, key: str, given: Mapping[str, Any]) -> Document:
        return _details(await definitions.create(self.store, key, given, self.actor))

    async def override(self, key: str, given: Mapping[str, Any], revision: int | None) -> Document:
        return _details(await definitions.override(self.store, key, given, self.actor, revision=revision))

    async def reset(self, key: str, fields: Sequence[str], revision: int | None) -> Document:
        return _details(await definitions.reset(self.store, key, fields, self.actor, revision=revision))

    async def set_active(self, key: str, active: bool) -> Document:
        return _plain(views.definition(await definitions.set_active(self.store, key, active, self.actor)))


class Triggers(_Topic):
    async def list(self, owner: Owner | None, limit: int) -> Sequence[Trigger]:
        return await triggers.list_all(self.store, owner, limit)

    async def find(self, text: str, owner: Owner | None) -> Trigger:
        return await triggers.find(self.store, text, owner)

    async def save(self, owner: Owner, rule: NewTrigger, created_by: str | None) -> Trigger:
        return await self.app.triggers_of(owner, self.actor).asave(rule, created_by)

    async def change(self, trigger: Trigger, changes: Mapping[str, Any]) -> Trigger:
        return await self.app.triggers_of(trigger.tenant, self.actor).aupdate(trigger.id, **changes)

    async def delete(self, trigger: Trigger, *, force: bool) -> None:
        await triggers.delete(self.store, trigger.tenant, trigger.id, force=force, actor=self.actor)

    async def restore(self, owner: Owner, trigger: TriggerId) -> Trigger:
        return await self.app.triggers_of(owner, self.actor).arestore(trigger)

    async def pause(self, trigger: Trigger, why: str, end: timedelta | datetime | None) -> Trigger:
        return await triggers.pause(self.store, trigger.tenant, trigger.id, why, end, self.actor)

    async def resume(self, trigger: Trigger) -> Trigger:
        return await triggers.resume(self.store, trigger.tenant, trigger.id, self.actor)

    async def preview(self, trigger: Trigger, count: int, viewer_zone: str) -> Preview:
        _, shown = await triggers.preview_trigger(self.store, trigger.tenant, trigger.id, count, viewer_zone)
        return shown

    async def preview_schedule(self, schedule: Schedule, count: int, viewer_zone: str) -> Preview:
        return await triggers.preview_schedule(self.store, schedule, count, viewer_zone)

    async def decisions(self, trigger: Trigger, limit: int) -> Sequence[Decision]:
        return await triggers.decisions(self.store, trigger.tenant, trigger.id, limit)


class Events(_Topic):
    async def emit(self, tenant: TenantId, name: str, data: Mapping[str, Any], options: Mapping[str, Any]) -> Emitted:
        return await self.app.tenant(tenant).options(**options).aemit(name, data)

    async def list(self, tenant: TenantId, limit: int, name: str | None) -> Sequence[Event]:
        return await events.list_latest(self.store, tenant, limit, name)

    async def test(self, tenant: TenantId, name: str, data: Mapping[str, Any]) -> Sequence[Document]:
        found = await self.app.tenant(tenant).triggers.atest(name, data)
        return [_plain(each) for each in events.as_document(found)]


class Tenants(_Topic):
    async def list(self, cursor: str | None, limit: int) -> tuple[TenantPage, bool]:
        return await tenants.list_page(self.store, cursor, limit), await self.store.strict_tenants()

    async def change(self, new: TenantId | None, strict: bool | None) -> tuple[bool, bool]:
        return await admin.change_tenants(self.store, new, strict, self.actor)

    async def usage(self, tenant: TenantId) -> TenantUsage:
        return await tenants.usage(self.store, tenant)

    def export(self, tenant: TenantId) -> AsyncGenerator[Document, None]:
        return tenants.export(self.store, tenant)

    async def delete(self, tenant: TenantId, pace: Pace | None) -> Operation:
        actor = self.actor
        return await tenants.delete(self.store, tenant, pace=pace, created_by=actor.name, actor=actor)


class LimitsAndPauses(_Topic):
    async def list(self) -> Sequence[ScopeRecord]:
        return await admin.scopes(self.store)

    async def limit(self, scope: Scope, max_running: int | None) -> None:
        await admin.limit(self.store, scope, max_running, self.actor)

    async def pause(self, scope: Scope, why: str, length: timedelta | None) -> None:
        await admin.pause(self.store, scope, why, length, self.actor)

    async def resume(self, scope: Scope) -> None:
        await admin.resume(self.store, scope, self.actor)


class Tokens(_Topic):
    async def create(
        self,
        name: str,
        role: Role,
        *,
        tenant: TenantId | None,
        permissions: frozenset[Permission] | None,
        definitions: tuple[str, ...] | None,
        life: timedelta,
    ) -> tuple[TokenRecord, str]:
        record, text = await tokens.create(
            self.store,
            name,
            role,
            tenant=tenant,
            permissions=permissions,
            definitions=definitions,
            life=life,
            created_by=self.actor.name,
            actor=self.actor,
        )
        return record, str(text)

    async def list(self, limit: int, tenant: TenantId | None) -> Sequence[TokenRecord]:
        return await tokens.list_all(self.store, limit, tenant=tenant)

    async def rotate(self, token: TokenId, *, life: timedelta, overlap: timedelta) -> tuple[TokenRecord, str]:
        record, text = await tokens.rotate(self.store, token, life=life, overlap=overlap, actor=self.actor)
        return record, str(text)

    async def revoke(self, token: TokenId) -> TokenRecord:
        return await tokens.revoke(self.store, token, self.actor)


class SavedViews(_Topic):
    """Views of the account that runs the command, under its name in the audit log, and shared ones."""

    @property
    def person(self) -> Principal:
        return Principal(self.actor.name, Role.SUPER_ADMIN, None)

    async def list(self, tenant: TenantId | None) -> Sequence[Document]:
        found = await saved_views.read(self.store, tenant, self.person)
        return [_plain(saved_views.as_document(each)) for each in found]

    async def save(self, tenant: TenantId | None, name: str, query: str, *, shared: bool) -> Document:
        saved = await saved_views.save(self.store, tenant, self.person, name, query, shared=shared)
        return _plain(saved_views.as_document(saved))

    async def delete(self, tenant: TenantId | None, name: str, *, shared: bool) -> None:
        if not await saved_views.delete(self.store, tenant, self.person, name, shared=shared):
            raise saved_views.unknown_view(name, shared=shared)


class DatabaseControl:
    """The verbs on the database of an open app. The audit log names the actor."""

    def __init__(self, app: Leasehold, actor: Actor) -> None:
        self.jobs = Jobs(app, actor)
        self.operations = Operations(app, actor)
        self.definitions = Definitions(app, actor)
        self.triggers = Triggers(app, actor)
        self.events = Events(app, actor)
        self.tenants = Tenants(app, actor)
        self.limits = LimitsAndPauses(app, actor)
        self.tokens = Tokens(app, actor)
        self.views = SavedViews(app, actor)
        self.hidden: Mapping[str, Permission] = {}
        self._store = app.store

    async def tenant(self, named: TenantId | None, missing: NoTenant) -> TenantId:
        if named is None:
            raise missing
        return named

    async def workers(self) -> Sequence[WorkerRecord]:
        return await admin.workers(self._store)

    async def audit(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        return await audit.entries(self._store, where, cursor, limit)

    async def error_groups(self, tenant: TenantId | None) -> Document:
        found = await error_groups.read(self._store, tenant)
        return _plain({"groups": [_group(each) for each in found.groups], "is_whole": found.is_whole})

    async def error_group(self, tenant: TenantId, group: str) -> Document:
        story = await error_groups.get(self._store, tenant, group)
        shares = error_groups.count_fields(views.payload(job) for job in story.jobs)
        return _plain(_group(story.group) | {"fields": [error_groups.as_document(share) for share in shares]})

    async def series(self, tenant: TenantId | None, window: str, by: By, definition: str | None) -> Document:
        return _plain(views.chart(await series.read(self._store, tenant, window, by, definition)))

    async def activity(self) -> Document:
        return _plain(await activity.read(self._store))

    async def usage(
        self, tenant: TenantId | None, since: str, until: str | None, by: str, definition: str | None
    ) -> Document:
        return usage.as_document(await usage.read(self._store, tenant, since, until, by, definition))


def _group(group: ErrorGroup) -> dict[str, Any]:
    """Returns the document of a group, with the field names of the API."""
    document = views.error_group(group)
    return {"tenant_id": document.pop("tenant"), "definition_key": document.pop("definition"), **document}


def _details(shown: Details) -> Document:
    return _plain(views.definition_details(shown.registered, shown.origins))


def _plain(document: Document) -> Document:
    """Returns a document as a server would send it."""
    plain: Document = orjson.loads(views.as_json(dict(document)))
    return plain

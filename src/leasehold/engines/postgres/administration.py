"""Administration in Postgres: tenants, limits, pauses, and reads across tenants."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime

import orjson

from leasehold.engines.postgres import all_tenants, fact_rows, pages, rows
from leasehold.engines.postgres.audit import PostgresAuditLog
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.definitions import PostgresDefinitions
from leasehold.model.facts import LaneState
from leasehold.model.job import JobId, JobRecord, TenantId, job_id
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.model.operation import OperationId
from leasehold.model.status import Status
from leasehold.store import ErrorGroups, Filter, Page, PayloadPage, ScopeRecord, StoredPayload, TenantUsage

# Less than the key of any job.
BEFORE_ALL = ("", "00000000-0000-0000-0000-000000000000")


class PostgresAdministration(PostgresDefinitions):
    def __init__(self, databases: TenantDatabases) -> None:
        super().__init__(databases.whole)
        self.audit = PostgresAuditLog(databases)

    def together(self) -> AbstractAsyncContextManager[None]:
        return self._database.together()

    async def tenants(self, limit: int = 1000, after: TenantId | None = None) -> Sequence[TenantId]:
        found = await self._database.fetch("administration/tenants", limit=limit, after=after or "")
        return [TenantId(row["id"]) for row in found]

    async def tenant_usage(self, tenant: TenantId, cap: int) -> TenantUsage | None:
        found = await self._database.fetch("administration/tenant_usage", tenant=tenant, cap=cap)
        if not found:
            return None
        row, counts = found[0], await self._database.fetch("tenant/counts", tenant=tenant, cap=cap)
        return TenantUsage(
            tenant,
            row["created_at"],
            {Status(each["status"]): each["count"] for each in counts},
            row["oldest_queued"],
            row["triggers"],
            row["max_running"],
            row["pause_reason"],
            row["paused_until"],
            None if row["deleted_by"] is None else OperationId(str(row["deleted_by"])),
        )

    async def add_tenant(self, tenant: TenantId) -> bool:
        return bool(await self._database.fetch("administration/add_tenant", tenant=tenant))

    async def strict_tenants(self) -> bool:
        ((strict,),) = await self._database.fetch("administration/strict_tenants")
        return bool(strict)

    async def set_strict_tenants(self, strict: bool) -> None:
        await self._database.fetch("administration/set_strict_tenants", strict=strict)

    async def find_all_tenants(self, where: Filter, cursor: str | None, limit: int) -> Page:
        return await all_tenants.find(self._database, where, cursor, limit)

    async def error_groups_of_tenants(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        found = await self._database.fetch(
            "administration/error_groups",
            limit=pages.one_more_than(limit),
            counted=counted,
            only=None if only is None else bytes.fromhex(only),
        )
        return rows.error_groups(found, limit, counted)

    async def jobs_with_id(self, job: JobId) -> Sequence[JobRecord]:
        found = await self._database.fetch("administration/jobs_with_id", job=job_id(job))
        return [rows.job(row) for row in found]

    async def encrypted_payloads(self, cursor: str | None, limit: int) -> PayloadPage:
        ended, tenant, after = orjson.loads(cursor) if cursor else (False, *BEFORE_ALL)
        found = await self._database.fetch(
            "administration/encrypted_jobs", ended=ended, tenant=tenant, after=after, limit=limit
        )
        payloads = [
            StoredPayload(
                TenantId(row["tenant_id"]), JobId(row["id"]), row["definition"], row["payload"], row["schema"]
            )
            for row in found
            if row["payload"] is not None
        ]
        if len(found) == limit:
            following = [ended, found[-1]["tenant_id"], found[-1]["id"]]
        elif not ended:
            following = [True, *BEFORE_ALL]
        else:
            return PayloadPage(payloads, None)
        return PayloadPage(payloads, orjson.dumps(following).decode())

    async def replace_payloads(self, changes: Sequence[tuple[StoredPayload, str]]) -> int:
        document = [
            {
                "tenant": stored.tenant,
                "id": stored.job,
                "before": orjson.Fragment(stored.payload),
                "after": orjson.Fragment(payload),
            }
            for stored, payload in changes
        ]
        ((replaced,),) = await self._database.fetch(
            "administration/replace_payloads", changes=orjson.dumps(document).decode()
        )
        return int(replaced)

    async def scopes(self, limit: int = 1000) -> Sequence[ScopeRecord]:
        return [rows.scope(row) for row in await self._database.fetch("administration/scopes", limit=limit)]

    async def scope(self, scope: Scope) -> ScopeRecord:
        found = await self._database.fetch("administration/scope", kind=scope.kind.value, key=scope.key)
        return rows.scope(found[0]) if found else ScopeRecord(scope, None, None, None)

    async def now(self) -> datetime:
        ((moment,),) = await self._database.fetch("doctor/clock")
        now: datetime = moment
        return now

    async def lanes(self, lanes: Sequence[tuple[str, TenantId]]) -> Sequence[LaneState]:
        if not lanes:
            return []
        definitions, tenants = zip(*lanes, strict=True)
        found = await self._database.fetch("administration/lanes", definitions=definitions, tenants=tenants)
        return [fact_rows.lane(row, *lane) for row, lane in zip(found, lanes, strict=True)]

    async def limit(self, scope: Scope, limits: Limits) -> None:
        changed = await self._database.fetch(
            "administration/limit",
            kind=scope.kind.value,
            key=scope.key,
            max_running=limits.max_running,
            rate_count=limits.rate and limits.rate.count,
            rate_period=limits.rate and limits.rate.period,
        )
        if not changed:
            raise await self._no_such_definition(scope.key)

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        changed = await self._database.fetch(
            "administration/pause",
            kind=scope.kind.value,
            key=scope.key,
            reason=pause and pause.why,
            until=pause and pause.until,
            by=pause and pause.by,
        )
        if not changed:
            raise await self._no_such_definition(scope.key)

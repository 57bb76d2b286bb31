"""Administration in Postgres: tenants, limits, pauses, and reads across tenants."""

from collections.abc import Sequence
from datetime import datetime

from leasehold.engines.postgres import pages, rows
from leasehold.engines.postgres.definitions import PostgresDefinitions
from leasehold.model.explain import LaneState
from leasehold.model.job import JobId, JobRecord, TenantId, job_id
from leasehold.model.limits import Limits, Pause, Scope
from leasehold.model.status import Status
from leasehold.store import Filter, Page, ScopeRecord


class PostgresAdministration(PostgresDefinitions):
    async def tenants(self, limit: int = 1000) -> Sequence[TenantId]:
        return [TenantId(row["id"]) for row in await self._database.fetch("administration/tenants", limit=limit)]

    async def add_tenant(self, tenant: TenantId) -> bool:
        return bool(await self._database.fetch("administration/add_tenant", tenant=tenant))

    async def strict_tenants(self) -> bool:
        ((strict,),) = await self._database.fetch("administration/strict_tenants")
        return bool(strict)

    async def set_strict_tenants(self, strict: bool) -> None:
        await self._database.fetch("administration/set_strict_tenants", strict=strict)

    async def find_all_tenants(self, where: Filter, cursor: str | None, limit: int) -> Page:
        found = await self._database.fetch(
            "administration/find_all_tenants",
            limit=pages.one_more_than(limit),
            only_running=set(where.statuses) == {Status.RUNNING},
            **pages.behind_everywhere(cursor),
            **pages.filter_columns(where),
        )
        return pages.page(found, limit, cursor=pages.cursor_everywhere)

    async def jobs_with_id(self, job: JobId) -> Sequence[JobRecord]:
        found = await self._database.fetch("administration/jobs_with_id", job=job_id(job))
        return [rows.job(row) for row in found]

    async def scopes(self, limit: int = 1000) -> Sequence[ScopeRecord]:
        return [rows.scope(row) for row in await self._database.fetch("administration/scopes", limit=limit)]

    async def now(self) -> datetime:
        ((moment,),) = await self._database.fetch("doctor/clock")
        now: datetime = moment
        return now

    async def lanes(self, lanes: Sequence[tuple[str, TenantId]]) -> Sequence[LaneState]:
        if not lanes:
            return []
        definitions, tenants = zip(*lanes, strict=True)
        found = await self._database.fetch("administration/lanes", definitions=definitions, tenants=tenants)
        return [rows.lane(row, *lane) for row, lane in zip(found, lanes, strict=True)]

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
        )
        if not changed:
            raise await self._no_such_definition(scope.key)

"""Administration in DynamoDB: definitions, tenants, limits and pauses, and reads across tenants."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime

import orjson

from leasehold.engines.dynamodb import activity, items, keys
from leasehold.engines.dynamodb.audit import DynamoAuditLog
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.find import Listing, require_limit
from leasehold.engines.dynamodb.holds import HoldStore
from leasehold.engines.dynamodb.items import read_job
from leasehold.engines.dynamodb.keys import JOB, job_key
from leasehold.engines.dynamodb.lanes import Lanes
from leasehold.engines.dynamodb.limits import RunningLimits
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.results import with_results
from leasehold.engines.dynamodb.table import Table, Update, gather
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.trigger_items import TRIGGER, owner_pk
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.definition import Change, Definition, Registered
from leasehold.model.facts import LaneState
from leasehold.model.job import JobId, JobRecord, TenantId, job_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.overrides import OverrideChange
from leasehold.model.secret_fields import SEALED
from leasehold.store import Activity, ErrorGroups, Filter, Page, PayloadPage, ScopeRecord, StoredPayload, TenantUsage
from leasehold.store.error_groups import latest_first

# Tenants whose jobs are read for error groups of all tenants: each takes up to 1,000 jobs.
GROUPED_TENANTS = 50


class DynamoAdministration:
    def __init__(
        self,
        table: Table,
        clock: Clock,
        definitions: Definitions,
        tenants: Tenants,
        holds: HoldStore,
        limits: RunningLimits,
        registrations: Registrations,
    ) -> None:
        self._table = table
        self._clock = clock
        self._definitions = definitions
        self._tenants = tenants
        self._holds = holds
        self._limits = limits
        self._registrations = registrations
        self._listing = Listing(table)
        self.audit = DynamoAuditLog(table, clock)
        self._lanes = Lanes(clock, definitions, holds, limits, registrations, self._listing)

    def together(self) -> AbstractAsyncContextManager[None]:
        """Does nothing: an entry is written right after its change."""
        return nullcontext()

    async def sync_definitions(self, found: Sequence[Definition], *, adopt: bool = True) -> Sequence[Change]:
        return await self._definitions.sync(found, adopt=adopt)

    async def override(
        self, key: str, change: OverrideChange, *, revision: int | None = None, create: bool = False
    ) -> Registered:
        return await self._holds.override(key, change, await self._clock.now(), revision, create)

    async def definitions(self) -> Sequence[Registered]:
        return await self._definitions.registered()

    async def definition_version(self, key: str, version: int) -> Definition | None:
        return await self._definitions.version(key, version)

    async def activity(self) -> Activity:
        return await activity.look(self._table, self._clock, self._definitions)

    async def tenants(self, limit: int = 1000, after: TenantId | None = None) -> Sequence[TenantId]:
        return await self._tenants.list(limit, after)

    async def tenant_usage(self, tenant: TenantId, cap: int) -> TenantUsage | None:
        found = await self._table.get((keys.CATALOG, keys.tenant_sk(tenant)))
        if found is None:
            return None
        now, scope = await self._clock.now(), Scope.of_row(ScopeKind.TENANT, tenant)
        held = await self._holds.read()
        pause = held.pause_of(scope, now)
        why, until = (pause.why, pause.until) if pause else (None, None)
        trigger_range = {"pk": owner_pk(tenant), "first": TRIGGER}
        triggers = self._table.query("#PK = :pk AND begins_with(#SK, :first)", trigger_range, limit=min(cap, 1000))
        counted = 0
        async for _ in triggers:
            counted += 1
            if counted == cap:
                break
        return TenantUsage(
            tenant,
            keys.read_timestamp(found["created_at"]),
            await self._listing.counts(tenant, cap),
            await self._listing.oldest_queued(tenant, now),
            counted,
            held.limits.get(scope),
            why,
            until,
            found.get("deleted_by"),
        )

    async def add_tenant(self, tenant: TenantId) -> bool:
        return await self._tenants.add(tenant)

    async def strict_tenants(self) -> bool:
        return await self._tenants.strict()

    async def set_strict_tenants(self, strict: bool) -> None:
        await self._tenants.set_strict(strict)

    async def now(self) -> datetime:
        return await self._clock.now()

    # ---------------------------------------------------------------------------------------- jobs of all tenants

    async def find_all_tenants(self, where: Filter, cursor: str | None, limit: int) -> Page:
        require_limit(limit)
        now = await self._clock.now()
        return await self._listing.find_all_tenants(await self._tenants.list(), where, cursor, limit, now)

    async def error_groups_of_tenants(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        """Reads the newest jobs of the first 50 tenants. The groups are not whole if there are more tenants."""
        now = await self._clock.now()
        tenants = await self._tenants.list(GROUPED_TENANTS + 1)
        found = await gather(
            self._listing.error_groups(tenant, limit, only, now) for tenant in tenants[:GROUPED_TENANTS]
        )
        groups = latest_first(group for each in found for group in each.groups)
        are_all = len(tenants) <= GROUPED_TENANTS and len(groups) <= limit
        return ErrorGroups(groups[:limit], are_all and all(each.is_whole for each in found))

    async def jobs_with_id(self, job: JobId) -> Sequence[JobRecord]:
        wanted, now = job_id(job), await self._clock.now()
        found = await self._table.get_many(job_key(tenant, wanted) for tenant in await self._tenants.list())
        jobs = [read_job(item, now) for item in await with_results(self._table, list(found.values()))]
        return sorted(jobs, key=lambda record: record.tenant)

    async def encrypted_payloads(self, cursor: str | None, limit: int) -> PayloadPage:
        """Reads the whole table once for jobs that have not ended, and then once for those that have."""
        ended, after = orjson.loads(cursor) if cursor else (False, None)
        wanted = items.ENDED if ended else f"NOT {items.ENDED}"
        page = await self._table.scan(
            limit,
            after,
            f"#SK = :job AND contains(#payload, :mark) AND {wanted}",
            {"job": JOB, "mark": f'"{SEALED}"', **items.WORDS},
        )
        payloads = [await self._stored(item) for item in page.items if _is_sealed(item)]
        if page.next is not None:
            return PayloadPage(payloads, orjson.dumps([ended, page.next]).decode())
        return PayloadPage(payloads, None if ended else orjson.dumps([True, None]).decode())

    async def _stored(self, item: Item) -> StoredPayload:
        tenant, job = keys.read_job_pk(item["PK"])
        version = await self._definitions.version(item["job_type"], item["version"])
        schema = None if version is None or version.schema is None else orjson.dumps(dict(version.schema)).decode()
        return StoredPayload(tenant, job, item["job_type"], item["payload"], schema)

    async def replace_payloads(self, changes: Sequence[tuple[StoredPayload, str]]) -> int:
        return sum(await gather(self._replace_payload(stored, payload) for stored, payload in changes))

    async def _replace_payload(self, stored: StoredPayload, payload: str) -> bool:
        key = job_key(stored.tenant, stored.job)
        change = Update(key, {"payload": payload}, "#payload = :before", {"before": stored.payload})
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed:
            return False
        return True

    # --------------------------------------------------------------------------------------------- limits and pauses

    async def scopes(self, limit: int = 1000) -> Sequence[ScopeRecord]:
        return await self._holds.records(await self._clock.now(), limit)

    async def scope(self, scope: Scope) -> ScopeRecord:
        return await self._holds.record(scope, await self._clock.now())

    async def limit(self, scope: Scope, limits: Limits) -> None:
        if limits.max_running is not None:
            await self._limits.begin(scope)
        await self._holds.limit(scope, limits)
        self._poke()

    async def pause(self, scope: Scope, pause: Pause | None) -> None:
        await self._holds.pause(scope, pause, await self._clock.now())
        self._poke()

    async def activate(self, definition: str, active: bool) -> None:
        await self._holds.activate(definition, active)
        self._poke()

    def _poke(self) -> None:
        """Makes workers of this process look for work that was held."""

    async def lanes(self, lanes: Sequence[tuple[str, TenantId]]) -> Sequence[LaneState]:
        return await self._lanes.states(lanes)


def _is_sealed(item: Item) -> bool:
    """Returns whether a field of the payload is encrypted; the text alone may be that of a value."""
    payload = orjson.loads(item["payload"])
    return any(isinstance(value, dict) and SEALED in value for value in payload.values())

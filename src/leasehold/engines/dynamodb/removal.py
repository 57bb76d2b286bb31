"""Removes a tenant from the table: tokens, triggers, events, jobs with all that belongs to them, limits, its name."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from leasehold.engines.dynamodb import items, keys
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.events import events_pk
from leasehold.engines.dynamodb.find import LISTED
from leasehold.engines.dynamodb.holds import HoldStore
from leasehold.engines.dynamodb.hours import usage_pk
from leasehold.engines.dynamodb.keys import CATALOG, JOB, tenant_sk
from leasehold.engines.dynamodb.limits import RunningLimits
from leasehold.engines.dynamodb.saved_views import views_pk
from leasehold.engines.dynamodb.table import LISTING, Delete, Table, gather
from leasehold.engines.dynamodb.tenant import DynamoTenantJobs
from leasehold.engines.dynamodb.tenants import REMEMBERED, Tenants
from leasehold.engines.dynamodb.trigger_items import TRIGGER, decisions_pk, owner_pk
from leasehold.engines.dynamodb.usage import DynamoUsage
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.job import TenantId
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.status import Status
from leasehold.model.trigger import TriggerId
from leasehold.store.operations import Operation, Removed

AT_ONCE = 100
# A producer knows of the removal after REMEMBERED, and the index lists what it wrote before some time later.
LAST_WRITES = REMEMBERED * 3
# Each worker adds up its usage about once a minute, and drops that of removed tenants.
LAST_USAGE = timedelta(minutes=3)


class Removal:
    def __init__(
        self,
        table: Table,
        clock: Clock,
        tenants: Tenants,
        holds: HoldStore,
        limits: RunningLimits,
        usage: DynamoUsage,
        skew: timedelta,
    ) -> None:
        self._table = table
        self._clock = clock
        self._tenants = tenants
        self._holds = holds
        self._limits = limits
        self._usage = usage
        self._skew = skew

    async def remove(self, operation: Operation, jobs: DynamoTenantJobs) -> Removed:
        """Removes up to some hundred items. Each delete can be repeated, so that any runner can go on."""
        tenant, now = operation.tenant, await self._clock.now()
        removed: Counter[str] = Counter()
        removed += await self._remove_tokens(tenant)
        removed += await self._remove_triggers(tenant)
        removed += await self._remove_partition("events", events_pk(tenant))
        removed += await self._remove_partition("views", views_pk(tenant))
        removed += await self._remove_partition("usage", usage_pk(tenant))
        running, gone = await self._remove_jobs(tenant, jobs, now)
        removed += gone
        if removed:
            return Removed(removed, over=False)
        if running:
            return Removed({}, over=False, waits=f"{running} running jobs were asked to stop")
        if operation.started_at is None or now < operation.started_at + LAST_WRITES:
            return Removed({}, over=False, waits="producers may still write for it, until they have heard of this")
        if now < operation.started_at + LAST_USAGE and await self._is_used(tenant):
            return Removed({}, over=False, waits="workers have not added up yet what it has used")
        scope = Scope.of_row(ScopeKind.TENANT, tenant)
        await self._holds.remove(scope)
        await self._limits.remove(scope)
        try:
            mine = Delete((CATALOG, tenant_sk(tenant)), "#deleted_by = :mine", {"mine": operation.id})
            await self._table.delete(mine)
        except ConditionFailed:
            pass  # deleted by a turn that did not get to its end
        self._tenants.forget(tenant)
        return Removed({"tenant": 1}, over=True)

    async def _is_used(self, tenant: TenantId) -> bool:
        """Returns whether a worker may still add up usage: that of a removed tenant must not go to a later one."""
        await self._usage.add_up_gone()
        return await self._usage.mentions(tenant)

    async def _remove_tokens(self, tenant: TenantId) -> Counter[str]:
        """Removes the tokens that are bound to the tenant. All tokens are one partition, since there are few."""
        listed = self._table.query("#PK = :pk", {"pk": keys.TOKENS})
        bound = [(item["PK"], item["SK"]) async for item in listed if item.get("tenant") == tenant]
        await self._table.delete_many(bound)
        return Counter({"tokens": len(bound)}) if bound else Counter()

    async def _remove_triggers(self, tenant: TenantId) -> Counter[str]:
        page = await self._table.page("#PK = :pk", {"pk": owner_pk(tenant)}, limit=AT_ONCE)
        removed: Counter[str] = Counter()
        for item in page.items:
            if item["SK"].startswith(TRIGGER):
                trigger = TriggerId(item["SK"].removeprefix(TRIGGER))
                removed += await self._remove_partition("decisions", decisions_pk(tenant, trigger))
                removed["triggers"] += 1
        await self._table.delete_many([(item["PK"], item["SK"]) for item in page.items])
        return removed

    async def _remove_partition(self, name: str, pk: str) -> Counter[str]:
        removed = 0
        while page := (await self._table.page("#PK = :pk", {"pk": pk}, limit=AT_ONCE)).items:
            await self._table.delete_many([(item["PK"], item["SK"]) for item in page])
            removed += len(page)
        return Counter({name: removed}) if removed else Counter()

    async def _remove_jobs(self, tenant: TenantId, jobs: DynamoTenantJobs, now: datetime) -> tuple[int, Counter[str]]:
        """Returns how many jobs still run, and what was removed."""
        pages = await gather(
            self._table.page(
                "#list_pk = :pk",
                {"pk": keys.list_pk(tenant, status.value, shard)},
                index=LISTING,
                limit=AT_ONCE,
            )
            for status in LISTED
            for shard in range(self._table.shards)
        )
        pks = [item["PK"] for page in pages for item in page.items]
        found = list((await self._table.get_many((pk, JOB) for pk in dict.fromkeys(pks))).values())
        running = [item for item in found if self._runs(item, now)]
        if running:
            await jobs.cancel([keys.read_job_pk(item["PK"])[1] for item in running])
        gone = await gather(self._remove_job(item) for item in found if not self._runs(item, now))
        return len(running), sum(gone, Counter())

    def _runs(self, job: Item, now: datetime) -> bool:
        """Returns whether a worker may still be at it."""
        latest = keys.timestamp(now - self._skew)
        return items.status_of(job) is Status.RUNNING and bool(job["lock_expires_at"] >= latest)

    async def _remove_job(self, job: Item) -> Counter[str]:
        """Deletes what belongs to the job, and then the job, unless a worker has claimed it meanwhile."""
        pk = job["PK"]
        listed = self._table.query("#PK = :pk", {"pk": pk})
        others: Sequence[str] = [item["SK"] async for item in listed if item["SK"] != JOB]
        await self._table.delete_many([(pk, sk) for sk in others])
        try:
            await self._table.delete(
                Delete((pk, JOB), "#written = :seen", {"seen": job["written"]})
                if "written" in job
                else Delete((pk, JOB), "#status = :seen", {"seen": job["status"]})
            )
        except ConditionFailed:
            return Counter({"records": len(others)}) if others else Counter()
        if "hold_pk" in job:
            await self._release_key(job)
        removed = Counter({"jobs": 1})
        if others:
            removed["records"] = len(others)
        return removed

    async def _release_key(self, job: Item) -> None:
        _, mine = keys.read_job_pk(job["PK"])
        try:
            await self._table.delete(Delete((job["hold_pk"], job["hold_sk"]), "#job_id = :mine", {"mine": mine}))
        except ConditionFailed:
            return  # another job holds it

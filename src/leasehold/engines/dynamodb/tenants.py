"""Tenants: listed at their first job, or refused if tenants are strict."""

from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import CATALOG, SETTINGS, tenant_sk, timestamp
from leasehold.engines.dynamodb.table import NEW, Table, Update
from leasehold.errors import TenantDeleted, UnknownTenant
from leasehold.model.job import TenantId

# How long a producer takes a tenant for open without a look. A removal waits for longer than that.
REMEMBERED = timedelta(seconds=10)


class Tenants:
    """The tenants of a table. One that was seen is remembered for a moment: it may be deleted by another process."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._known: dict[TenantId, float] = {}

    async def admit(self, tenant: TenantId) -> None:
        """Lists the tenant at its first use. Raises UnknownTenant if tenants are strict."""
        if self._remembers(tenant):
            return
        found = await self._table.get((CATALOG, tenant_sk(tenant)))
        if found is not None and "deleted_by" in found:
            raise TenantDeleted(
                f"tenant {tenant!r} is being deleted. Nothing was written.",
                fix="Stop its producers. Once it is deleted, its name can be used again.",
            )
        if found is None:
            if await self.strict():
                raise UnknownTenant(
                    f"tenant {tenant!r} was never registered, and strict tenants are on. Nothing was enqueued.",
                    fix=f"Correct its name, or run: leasehold tenants --add {tenant}",
                )
            await self.add(tenant)
        self._known[tenant] = monotonic()

    def forget(self, tenant: TenantId) -> None:
        """Looks the tenant up again at its next use."""
        self._known.pop(tenant, None)

    def _remembers(self, tenant: TenantId) -> bool:
        return monotonic() - self._known.get(tenant, float("-inf")) < REMEMBERED.total_seconds()

    async def refuses(self, tenant: TenantId) -> bool:
        """Returns whether tenants are strict, and this one was never registered. Lists nothing."""
        if self._remembers(tenant) or await self._table.get((CATALOG, tenant_sk(tenant))) is not None:
            return False
        return await self.strict()

    async def add(self, tenant: TenantId) -> bool:
        item = {"PK": CATALOG, "SK": tenant_sk(tenant), "created_at": timestamp(await self._clock.now())}
        try:
            await self._table.put(item, NEW)
        except ConditionFailed:
            return False
        return True

    async def list(self, limit: int | None = None, after: TenantId | None = None) -> Sequence[TenantId]:
        """Returns the first tenants, by name; all without a limit."""
        found: list[TenantId] = []
        condition, values = "#PK = :pk AND begins_with(#SK, :sk)", {"pk": CATALOG, "sk": "tenant#"}
        if after is not None:
            condition = "#PK = :pk AND #SK BETWEEN :sk AND :last"
            values |= {"sk": f"{tenant_sk(after)}\0", "last": "tenant#\U0010ffff"}
        async for item in self._table.query(condition, values, limit=limit):
            found.append(TenantId(item["SK"].removeprefix("tenant#")))
            if len(found) == limit:
                break
        return found

    async def strict(self) -> bool:
        item = await self._table.get(SETTINGS)
        return bool(item and item.get("strict_tenants"))

    async def set_strict(self, strict: bool) -> None:
        await self._table.update(Update(SETTINGS, {"strict_tenants": strict}), returns="NONE")

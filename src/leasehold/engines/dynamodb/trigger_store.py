"""The part of an open store that has triggers, events and schedules."""

from collections.abc import Callable
from functools import cached_property

from leasehold.engines.dynamodb.all_triggers import DynamoAllTriggers
from leasehold.engines.dynamodb.enqueue import Enqueueing
from leasehold.engines.dynamodb.events import DynamoEvents, EventParts
from leasehold.engines.dynamodb.schedules import DynamoSchedules
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.triggers import DynamoTriggers
from leasehold.errors import UnknownTenant
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, AllTenants


class DynamoTriggerStore:
    _event_parts: EventParts
    _tenants: Tenants
    _enqueueing_of: Callable[[TenantId], Enqueueing]

    def _begin_triggers(self, parts: EventParts, enqueueing_of: Callable[[TenantId], Enqueueing]) -> None:
        self._event_parts = parts
        self._enqueueing_of = enqueueing_of

    def triggers(self, tenant: TenantId | AllTenants) -> DynamoTriggers:
        return DynamoTriggers(self._event_parts.table, self._event_parts.clock, tenant, self._admit)

    async def _admit(self, tenant: TenantId | AllTenants) -> None:
        """Refuses a tenant that was never registered if tenants are strict. A trigger alone registers none."""
        if tenant is not ALL and await self._tenants.refuses(tenant):
            raise UnknownTenant(
                f"tenant {tenant!r} was never registered, and strict tenants are on. Nothing was saved.",
                fix=f"Correct its name, or run: leasehold tenants --add {tenant}",
            )

    def events(self, tenant: TenantId) -> DynamoEvents:
        return DynamoEvents(self._event_parts, tenant, self._enqueueing_of(tenant))

    @property
    def all_triggers(self) -> DynamoAllTriggers:
        return DynamoAllTriggers(self._event_parts.table, self._event_parts.clock)

    @cached_property
    def schedules(self) -> DynamoSchedules:
        return DynamoSchedules(self._event_parts, self._enqueueing_of)

"""The kit of the scheduler tests: schedules, fires, and the jobs that they made."""

from datetime import datetime, timedelta
from typing import Any

from tests.conftest import eventually

from leasehold.engine import MovableClock
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision
from leasehold.model.job import JobRecord, Source, TenantId, tenant_id
from leasehold.model.schedule import Schedule
from leasehold.model.trigger import AllTenants, NewTrigger, Trigger
from leasehold.scheduler import fire_due_schedules
from leasehold.store import Filter, Store

ACME = tenant_id("acme")
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
HOURLY = Cron("0 * * * *")


class Timetable:
    def __init__(self, store: Store, clock: MovableClock) -> None:
        self.store = store
        self.clock = clock

    async def add(self, tenant: TenantId | AllTenants = ACME, schedule: Schedule = HOURLY, **fields: Any) -> Trigger:
        rule = NewTrigger(**{"label": "hourly", "definition": "report", "schedule": schedule, **fields})
        return await self.store.triggers(tenant).add(rule)

    async def fire(self) -> int:
        return (await fire_due_schedules(self.store)).fired

    async def jobs(self, tenant: TenantId = ACME) -> list[JobRecord]:
        page = await self.store.tenant(tenant).find(Filter(source=Source.SCHEDULE), None, 1000)
        return sorted(page.jobs, key=lambda job: job.scheduled_for)

    async def fired_at(self, tenant: TenantId = ACME) -> list[datetime]:
        return [job.scheduled_for for job in await self.jobs(tenant)]

    async def decisions(self, trigger: Trigger) -> list[Decision]:
        return list(reversed(await self.store.triggers(trigger.tenant).decisions(trigger.id, 100_000)))

    async def until_fired(self, count: int, tenant: TenantId = ACME) -> None:
        async def fired() -> bool:
            return len(await self.jobs(tenant)) >= count

        await eventually(fired, what=f"{count} jobs of schedules")


async def add_tenants(store: Store, count: int, first: int = 0) -> list[TenantId]:
    tenants = [tenant_id(f"t{number:04}") for number in range(first, first + count)]
    for tenant in tenants:
        await store.add_tenant(tenant)
    return tenants

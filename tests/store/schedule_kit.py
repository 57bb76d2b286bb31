"""One tenant's schedules, for tests. A module that imports the fixtures has its clock stand at noon."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.store.bench import EngineUnderTest, all_jobs
from tests.tenant_kit import ACME, HOUR

from leasehold.engine import MovableClock
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.job import JobRecord, Source, TenantId
from leasehold.model.schedule import Schedule
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.store import Filter, Store, Triggers

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)
HOURLY = Cron("0 * * * *")
ONLY_SCHEDULED = Filter(source=Source.SCHEDULE)


@pytest.fixture(autouse=True)
async def noon(clock: MovableClock, bystanders: None) -> None:
    """The clock stands still at noon, and is moved by the test."""
    await clock.freeze(NOON)


class Plans:
    """One tenant's schedules, and what became of them."""

    def __init__(self, engine: EngineUnderTest) -> None:
        self.store = engine.store
        self.triggers: Triggers = engine.store.triggers(ACME)
        self.move = engine.move_clock

    async def add(self, schedule: Schedule = HOURLY, **fields: Any) -> Trigger:
        return await self.triggers.add(rule(schedule, **fields))

    async def fire(self, store: Store | None = None) -> int:
        """Fires like a scheduler does: again while there may be more."""
        fired = 0
        while True:
            done = await (store or self.store).schedules.fire_due()
            fired += done.fired
            if not done.more:
                return fired

    async def jobs(self, tenant: TenantId = ACME) -> list[JobRecord]:
        """Jobs of schedules, the oldest fire first."""
        found = await all_jobs(self.store.tenant(tenant), ONLY_SCHEDULED)
        return sorted(found, key=lambda job: job.scheduled_for)

    async def fired_at(self, tenant: TenantId = ACME) -> list[datetime]:
        return [job.scheduled_for for job in await self.jobs(tenant)]

    async def decisions(self, trigger: Trigger) -> list[Decision]:
        """The oldest first."""
        return list(reversed(await self.store.triggers(trigger.tenant).decisions(trigger.id, 1000)))

    async def kinds(self, trigger: Trigger) -> list[DecisionKind]:
        return [decision.kind for decision in await self.decisions(trigger)]


def rule(schedule: Schedule = HOURLY, **fields: Any) -> NewTrigger:
    return NewTrigger(**{"label": "hourly", "definition": "report", "schedule": schedule, **fields})


def hours(*numbers: float) -> list[datetime]:
    return [NOON + number * HOUR for number in numbers]


@pytest.fixture
def plans(engine: EngineUnderTest) -> Plans:
    return Plans(engine)

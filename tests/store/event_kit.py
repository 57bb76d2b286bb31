"""The triggers and events of tenants, for tests. A module that imports the fixtures has its clock stand at noon."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.store.bench import EngineUnderTest, all_jobs
from tests.tenant_kit import ACME

from leasehold.engine import MovableClock
from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.event import NewEvent
from leasehold.model.event_plan import Emitted
from leasehold.model.job import JobRecord, Source, TenantId
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.store import Filter

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)
ONLY_OF_EVENTS = Filter(source=Source.EVENT)
FOLDER = "provider.folder.updated"


class Events:
    """The triggers and events of tenants, and what became of them."""

    def __init__(self, engine: EngineUnderTest) -> None:
        self.store = engine.store
        self.move = engine.move_clock

    async def add(self, event: str = FOLDER, tenant: Any = ACME, **fields: Any) -> Trigger:
        return await self.store.triggers(tenant).add(rule(event, **fields))

    async def emit(self, name: str = FOLDER, tenant: TenantId = ACME, **data: Any) -> Emitted:
        return await self.store.events(tenant).emit(NewEvent(name, data))

    async def jobs(self, tenant: TenantId = ACME) -> list[JobRecord]:
        """Sorted by when they are due, then by payload: ids of one millisecond have no order."""
        found = await all_jobs(self.store.tenant(tenant), ONLY_OF_EVENTS)
        return sorted(found, key=lambda job: (job.scheduled_for, str(job.payload)))

    async def payloads(self, tenant: TenantId = ACME) -> list[Any]:
        return [job.payload for job in await self.jobs(tenant)]

    async def decisions(self, trigger: Trigger) -> list[Decision]:
        """The oldest first."""
        return list(reversed(await self.store.triggers(trigger.tenant).decisions(trigger.id, 1000)))

    async def kinds(self, trigger: Trigger) -> list[DecisionKind]:
        return [decision.kind for decision in await self.decisions(trigger)]


def rule(event: str = FOLDER, **fields: Any) -> NewTrigger:
    return NewTrigger(**{"label": event, "definition": "report", "event": event, **fields})


def kinds_of(emitted: Emitted) -> Sequence[DecisionKind]:
    return [decision.kind for decision in emitted.decisions]


@pytest.fixture(autouse=True)
async def noon(clock: MovableClock, bystanders: None) -> None:
    """The clock stands still at noon, and is moved by the test."""
    await clock.freeze(NOON)


@pytest.fixture
def events(engine: EngineUnderTest) -> Events:
    return Events(engine)

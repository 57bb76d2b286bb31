"""The statements of an emit: one if no trigger matches, else two, whatever their number."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.store.bench import REPORT
from tests.store.event_kit import FOLDER, rule
from tests.tenant_kit import ACME

from leasehold import engine as engines
from leasehold.engines import engine_for
from leasehold.model.event import NewEvent
from leasehold.store import Store


@pytest.fixture
def kit(database_url: str) -> engines.TestKit:
    return engine_for(database_url).test_kit()


async def sent_by(kit: engines.TestKit, store: Store) -> Sequence[str]:
    before = len(kit.statements())
    await store.events(ACME).emit(NewEvent(FOLDER, {"n": 1}))
    return list(kit.statements())[before:]


async def test_an_event_without_triggers_costs_one_statement(kit: engines.TestKit) -> None:
    store = await kit.open()
    await sent_by(kit, store)
    assert len(await sent_by(kit, store)) == 1
    await store.close()


async def test_an_event_with_fifty_triggers_costs_two_statements(kit: engines.TestKit) -> None:
    store = await kit.open()
    await store.sync_definitions([REPORT])
    await sent_by(kit, store)
    for number in range(50):
        await store.triggers(ACME).add(rule(label=f"number {number}", dedupe_window=timedelta()))
    assert len(await sent_by(kit, store)) == 3
    assert len(await sent_by(kit, store)) == 2
    await store.close()

"""Events on DynamoDB: their requests, and those whose jobs no single transaction can hold."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.dynamodb.fault_injection import Crash, Faults, crash_after
from tests.dynamodb.raw_table import RawTable
from tests.store.bench import Bench, all_jobs
from tests.store.event_kit import FOLDER, ONLY_OF_EVENTS, rule
from tests.telemetry.samples import samples_of
from tests.tenant_kit import ACME

from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.event import NewEvent, event_id
from leasehold.scheduler import fire_due_schedules
from leasehold.store import Store
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics

OWN = event_id("01890a5d-ac96-774b-bcce-b302099a8057")
EVENT = NewEvent(FOLDER, {"n": 1}, id=OWN)


async def add_triggers(store: Store, count: int) -> None:
    for number in range(count):
        await store.triggers(ACME).add(rule(label=f"number {number}", dedupe_window=timedelta()))


async def sent_by(kit: DynamoTestKit, store: Store) -> Sequence[str]:
    before = len(kit.statements())
    await store.events(ACME).emit(NewEvent(FOLDER, {"n": 1}))
    return list(kit.statements())[before:]


async def stored_event(table: RawTable) -> dict[str, Any]:
    (event,) = [item for item in await table.items() if item["SK"] == f"event#{OWN}"]
    return event


async def test_an_event_without_triggers_costs_two_requests(store: Store, kit: DynamoTestKit) -> None:
    await sent_by(kit, store)
    assert await sent_by(kit, store) == ["BatchGetItem", "PutItem"]


async def test_an_event_with_a_trigger_is_one_transaction(store: Store, kit: DynamoTestKit) -> None:
    await add_triggers(store, 1)
    await sent_by(kit, store)
    sent = await sent_by(kit, store)
    assert [each for each in sent if each not in ("GetItem", "BatchGetItem")] == ["TransactWriteItems"]


async def test_an_event_with_sixty_triggers_makes_all_jobs(store: Store, bench: Bench, table: RawTable) -> None:
    await add_triggers(store, 60)
    emitted = await store.events(ACME).emit(EVENT)
    assert (emitted.expanded, len(emitted.jobs)) == (True, 60)
    assert len(await all_jobs(bench.jobs, ONLY_OF_EVENTS)) == 60
    assert "due_pk" not in await stored_event(table)


@pytest.mark.parametrize("writes", range(1, 4))
async def test_a_crash_between_its_parts_loses_no_job(
    store: Store, kit: DynamoTestKit, bench: Bench, table: RawTable, writes: int
) -> None:
    """The event itself is the first write. The scheduler finishes what the process has left behind.

    Until then nothing deletes the event.
    """
    await add_triggers(store, 60)
    faults = Faults()
    dying = await kit.open_with(faults.intercept)
    await dying.events(ACME).emit(NewEvent("other.event", {}))  # the tenant and its triggers are known now
    with crash_after(faults, writes), pytest.raises(Crash):
        await dying.events(ACME).emit(EVENT)
    await dying.close()
    assert "ttl" not in await stored_event(table)
    await store.schedules.fire_due()
    assert "ttl" in await stored_event(table)
    assert len(await all_jobs(bench.jobs, ONLY_OF_EVENTS)) == 60
    again = await store.events(ACME).emit(EVENT)
    assert (again.created, len(again.jobs)) == (False, 60)


async def test_the_scheduler_counts_jobs_of_an_event_left_behind(
    store: Store, kit: DynamoTestKit, bench: Bench
) -> None:
    await add_triggers(store, 60)
    faults, metrics = Faults(), Metrics()
    dying = await kit.open_with(faults.intercept)
    await dying.events(ACME).emit(NewEvent("other.event", {}))
    with crash_after(faults, 1), pytest.raises(Crash):
        await dying.events(ACME).emit(EVENT)
    await dying.close()
    await fire_due_schedules(store, listeners=Listeners([metrics]))
    made = await all_jobs(bench.jobs, ONLY_OF_EVENTS)
    assert samples_of(metrics).total("leasehold_enqueued_total", source="event") == len(made) == 60

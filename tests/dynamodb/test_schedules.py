"""Schedules on DynamoDB: each fire time once, whatever fails, and schedules that this release can't read."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.dynamodb.fault_injection import Crash, Fault, Faults, crash_after
from tests.dynamodb.raw_table import RawTable
from tests.scheduler.timetable import HOUR, Timetable, add_tenants
from tests.store.bench import EngineUnderTest
from tests.tenant_kit import ACME

from leasehold.engine import MovableClock
from leasehold.engines.dynamodb import schedules
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.engines.dynamodb.trigger_items import trigger_key
from leasehold.model.decision import DecisionKind
from leasehold.model.trigger import ALL, Trigger
from leasehold.store import Store

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
async def timetable(store: Store, clock: MovableClock) -> Timetable:
    """Schedules of kind `report`. The clock stands still at noon, and is moved by the test."""
    await clock.freeze(NOON)
    return Timetable(store, clock)


async def overwrite(table: RawTable, trigger: Trigger, name: str, text: str) -> None:
    """Changes an attribute of a trigger, as a newer release would have written it."""
    pk, sk = trigger_key(trigger.tenant, trigger.id)
    await table.client.update_item(
        TableName=table.name,
        Key={"PK": {"S": pk}, "SK": {"S": sk}},
        UpdateExpression="SET #name = :text",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":text": {"S": text}},
    )


async def test_schedulers_at_once_fire_each_time_once(timetable: Timetable, engine: EngineUnderTest) -> None:
    trigger = await timetable.add()
    stores = [await engine.open_again() for _ in range(4)]
    try:
        for _ in range(3):
            await timetable.clock.move(HOUR)
            await asyncio.gather(*(store.schedules.fire_due() for store in stores))
    finally:
        for store in stores:
            await store.close()
    assert await timetable.fired_at() == [NOON + number * HOUR for number in (1, 2, 3)]
    assert [decision.kind for decision in await timetable.decisions(trigger)] == [DecisionKind.FIRED] * 3


@pytest.mark.parametrize("lost_reply", [False, True], ids=["before the write", "after the write"])
async def test_a_crash_in_a_fire_makes_one_job(timetable: Timetable, kit: DynamoTestKit, lost_reply: bool) -> None:
    await timetable.store.add_tenant(ACME)
    await timetable.add()
    await timetable.clock.move(HOUR)
    faults = Faults()
    dying = await kit.open_with(faults.intercept)
    with crash_after(faults, 0, lost_reply=lost_reply), pytest.raises(Crash):
        await dying.schedules.fire_due()
    await dying.close()
    await timetable.fire()
    assert await timetable.fired_at() == [NOON + HOUR]


async def test_a_lost_reply_to_a_fire_makes_one_job(timetable: Timetable, kit: DynamoTestKit) -> None:
    await timetable.add()
    await timetable.clock.move(HOUR)
    lost: list[str] = []

    def lose_first(request: object) -> Fault | None:
        if getattr(request, "operation", "") != "TransactWriteItems" or lost:
            return None
        lost.append("TransactWriteItems")
        return Fault.LOST_REPLY

    store = await kit.open_with(Faults(script=lose_first).intercept)
    assert (await store.schedules.fire_due()).fired == 1
    await store.close()
    assert lost
    assert await timetable.fired_at() == [NOON + HOUR]


async def test_more_tenants_than_a_transaction_holds_get_jobs(
    timetable: Timetable, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "FIRES_OF_A_SCHEDULE", 3)
    trigger = await timetable.add(ALL)
    tenants = await add_tenants(store, 8)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 8
    for tenant in tenants:
        assert await timetable.fired_at(tenant) == [NOON + HOUR]
    assert [decision.tenant for decision in await timetable.decisions(trigger)] == tenants


async def test_an_unreadable_schedule_stops_no_other_one(timetable: Timetable, table: RawTable) -> None:
    broken, sound = await timetable.add(label="broken"), await timetable.add(label="sound")
    await overwrite(
        table, broken, "rule", '{"label": "broken", "definition": "report", "cron": "61 * * * *", "zone": "UTC"}'
    )
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 1
    assert [decision.kind for decision in await timetable.decisions(sound)] == [DecisionKind.FIRED]
    shown = await timetable.store.triggers(ACME).get(broken.id)
    assert shown is not None
    assert (shown.rule.label, list(shown.unreadable)) == ("broken", ["schedule"])
    done = await timetable.store.schedules.fire_due()
    assert (done.more, done.next_fire) == (False, HOUR)  # the one that is left is due, and not waited for


async def test_a_fire_of_an_older_tzdata_is_computed_again(
    timetable: Timetable, store: Store, table: RawTable
) -> None:
    trigger = await timetable.add()
    await overwrite(table, trigger, "tzdata", "2020a")
    assert await store.schedules.renew_fire_times() == 1
    assert await store.schedules.renew_fire_times() == 0
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 1

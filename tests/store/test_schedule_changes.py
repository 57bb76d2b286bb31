"""A schedule that is changed, paused or deleted: all schedulers are told, since the next fire may be another one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest
from tests.tenant_kit import ACME

from leasehold.model.cron import Cron
from leasehold.model.limits import Pause
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.store import NextFire, Store

pytestmark = pytest.mark.abilities("schedules", "wakes")

NIGHTLY = NewTrigger(label="nightly", definition="report", schedule=Cron("0 2 * * *"))
ON_EVENT = NewTrigger(label="on event", definition="report", event="list.created")
Change = Callable[[Store, Trigger], Awaitable[object]]


async def pause(store: Store, trigger: Trigger) -> None:
    await store.triggers(ACME).pause(trigger.id, Pause("holidays"))


async def edit(store: Store, trigger: Trigger) -> None:
    await store.triggers(ACME).change(trigger, replace(trigger.rule, label="changed"))


async def delete(store: Store, trigger: Trigger) -> None:
    await store.triggers(ACME).delete(trigger.id)


@pytest.mark.parametrize("change", [pause, edit, delete])
async def test_schedulers_are_told_of_a_change(store: Store, second_store: Store, change: Change) -> None:
    trigger = await store.triggers(ACME).add(NIGHTLY)
    async with aclosing(second_store.schedules.fire_times()) as announcements, asyncio.timeout(30):
        assert await anext(announcements) == NextFire(None)
        await change(store, trigger)
        assert await anext(announcements) == NextFire(None)


@pytest.mark.parametrize("change", [pause, edit, delete])
async def test_a_change_of_an_event_trigger_is_not_announced(
    store: Store, second_store: Store, change: Change
) -> None:
    trigger = await store.triggers(ACME).add(ON_EVENT)
    async with aclosing(second_store.schedules.fire_times()) as announcements, asyncio.timeout(30):
        assert await anext(announcements) == NextFire(None)
        await change(store, trigger)
        await store.triggers(ACME).add(NIGHTLY)
        announced = await anext(announcements)
    assert announced.wait is not None

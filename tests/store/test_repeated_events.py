"""An emit that is repeated with its id: one event, and the jobs of the first call."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from tests.store.event_kit import FOLDER, Events
from tests.store.event_kit import events as events
from tests.store.event_kit import noon as noon
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import IdReused
from leasehold.model.event import NewEvent, event_id
from leasehold.model.event_plan import Emitted
from leasehold.model.job import TenantId
from leasehold.store import Store

pytestmark = pytest.mark.abilities("schedules")

OWN = event_id(uuid4())


async def repeat(store: Store, tenant: TenantId = ACME, **data: Any) -> Emitted:
    return await store.events(tenant).emit(NewEvent(FOLDER, data, id=OWN))


async def test_an_event_has_the_id_of_its_call(events: Events) -> None:
    emitted = await repeat(events.store, size=1)
    assert (emitted.id, emitted.created) == (OWN, True)


async def test_a_repeated_emit_without_triggers_writes_one_event(events: Events) -> None:
    answers = [await repeat(events.store, size=1) for _ in range(2)]
    assert [each.created for each in answers] == [True, False]
    assert len(await events.store.events(ACME).list(10)) == 1


async def test_a_repeated_emit_gets_the_jobs_of_the_first(events: Events) -> None:
    trigger = await events.add(dedupe_window=None)
    first, second = [await repeat(events.store, size=1) for _ in range(2)]
    assert (second.created, second.jobs) == (False, first.jobs)
    assert [job.id for job in await events.jobs()] == list(first.jobs)
    assert len(await events.kinds(trigger)) == 1


async def test_a_trigger_that_came_later_ignores_the_event(events: Events) -> None:
    await repeat(events.store, size=1)
    await events.add()
    again = await repeat(events.store, size=1)
    assert (again.created, again.decisions, await events.jobs()) == (False, (), [])


@pytest.mark.parametrize("with_trigger", [False, True])
async def test_an_id_of_another_event_is_refused(events: Events, with_trigger: bool) -> None:
    if with_trigger:
        await events.add()
    await repeat(events.store, size=1)
    with pytest.raises(IdReused, match="was used before, for another event"):
        await repeat(events.store, size=2)
    assert len(await events.store.events(ACME).list(10)) == 1


async def test_two_tenants_may_use_the_same_id(events: Events) -> None:
    answers = [await repeat(events.store, tenant, size=1) for tenant in (ACME, OTHER)]
    assert [each.created for each in answers] == [True, True]


async def test_emits_at_once_with_one_id_make_one_job(events: Events, stores: list[Store]) -> None:
    await events.add(dedupe_window=None)
    answers = await asyncio.gather(*(repeat(store, size=1) for store in stores for _ in range(5)))
    assert sorted(each.created for each in answers).count(True) == 1
    assert len(await events.jobs()) == 1


async def test_a_repeated_emit_succeeds_after_its_rules_changed(events: Events) -> None:
    await events.add(dedupe_window=None)
    first = await repeat(events.store, size=1)
    await events.store.activate("report", False)
    again = await repeat(events.store, size=1)
    await events.store.activate("report", True)
    assert (again.id, again.created) == (first.id, False)
    assert [decision.job for decision in again.decisions] == list(first.jobs)

"""Triggers that code declares: a sync saves what differs, and removes what is declared no longer."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.cron import Cron
from leasehold.model.limits import Pause
from leasehold.model.trigger import ALL, AllTenants, NewTrigger, Origin, Trigger
from leasehold.store import DeclaredTrigger, Store, TriggerChange

pytestmark = pytest.mark.abilities("schedules")


def declared(tenant: Any = ACME, **fields: Any) -> DeclaredTrigger:
    rule = {"label": "nightly", "definition": "report", "schedule": Cron("0 2 * * *"), **fields}
    return DeclaredTrigger(tenant, NewTrigger(**rule))


async def sync(store: Store, *triggers: DeclaredTrigger, dry_run: bool = False) -> list[TriggerChange]:
    return list(await store.all_triggers.sync(triggers, ["report"], dry_run=dry_run))


async def saved(store: Store) -> list[Trigger]:
    return list(await store.all_triggers.list(100))


@pytest.mark.parametrize("tenant", [ACME, ALL])
async def test_a_declared_trigger_is_saved_as_one_of_code(store: Store, tenant: Any) -> None:
    (change,) = await sync(store, declared(tenant))
    (trigger,) = await saved(store)
    assert (change.created, change.id, trigger.id) == (True, declared(tenant).id, declared(tenant).id)
    assert (trigger.origin, trigger.tenant, trigger.rule.label) == (Origin.CODE, tenant, "nightly")
    assert trigger.next_at is not None


async def test_a_second_sync_changes_nothing(store: Store) -> None:
    await sync(store, declared())
    (before,) = await saved(store)
    (change,) = await sync(store, declared())
    assert not change.differs
    assert await saved(store) == [before]


async def test_a_changed_declaration_changes_the_same_trigger(store: Store) -> None:
    await sync(store, declared())
    (change,) = await sync(store, declared(schedule=Cron("0 3 * * *")))
    (trigger,) = await saved(store)
    assert set(change.fields) == {"schedule"}
    assert (trigger.id, trigger.version, trigger.rule.schedule) == (declared().id, 2, Cron("0 3 * * *"))


async def test_a_declaration_that_is_gone_removes_its_trigger(store: Store) -> None:
    await sync(store, declared(), declared(OTHER))
    (kept, gone) = await sync(store, declared())
    assert (kept.differs, gone.removed, gone.tenant) == (False, True, OTHER)
    assert [trigger.tenant for trigger in await saved(store)] == [ACME]


async def test_a_declaration_that_comes_back_restores_its_trigger(store: Store) -> None:
    await sync(store, declared())
    await sync(store)
    (change,) = await sync(store, declared())
    (trigger,) = await saved(store)
    assert (change.created, trigger.id) == (True, declared().id)
    assert trigger.next_at is not None


async def test_triggers_of_data_and_of_other_code_stay(store: Store) -> None:
    await store.triggers(ACME).add(declared(label="by hand").rule)
    await store.all_triggers.sync([declared(definition="email")], ["email"])
    await sync(store)
    assert sorted(trigger.rule.label for trigger in await saved(store)) == ["by hand", "nightly"]


async def test_a_dry_run_tells_the_changes_and_writes_nothing(store: Store) -> None:
    await sync(store, declared())
    changes = await sync(store, declared(OTHER), dry_run=True)
    assert sorted((change.created, change.removed) for change in changes) == [(False, True), (True, False)]
    assert [trigger.tenant for trigger in await saved(store)] == [ACME]


async def test_a_sync_keeps_a_pause(store: Store) -> None:
    await sync(store, declared())
    await store.triggers(ACME).pause(declared().id, Pause("holidays"))
    await sync(store, declared(spread=timedelta()))
    (trigger,) = await saved(store)
    assert trigger.pause is not None


async def test_syncs_at_once_save_one_trigger(store: Store, stores: list[Store]) -> None:
    await asyncio.gather(*(sync(each, declared(), declared(ALL)) for each in stores))
    assert len(await saved(store)) == 2


async def test_two_declarations_with_one_label_are_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="have the same label"):
        await sync(store, declared(), declared(schedule=Cron("0 3 * * *")))
    assert await saved(store) == []


@pytest.mark.parametrize("owner", [ACME, ALL])
async def test_triggers_of_all_owners_are_found(store: Store, owner: Any) -> None:
    await sync(store, declared(ACME), declared(ALL))
    wanted = declared(owner).id
    found = await store.all_triggers.get(wanted)
    assert found is not None
    assert (found.id, isinstance(found.tenant, AllTenants)) == (wanted, owner is ALL)
    assert {each.id for each in await store.all_triggers.search("nightly", None, 10)} >= {wanted}
    assert [each.id for each in await store.all_triggers.search("", wanted[-8:], 10)] == [wanted]

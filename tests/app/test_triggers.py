"""Triggers by tenant handles. Mistakes are refused before they are saved."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import Clock

from leasehold import (
    ALL,
    DecisionKind,
    InvalidInput,
    Job,
    Leasehold,
    TenantTriggers,
    TypedDefinition,
    UnknownTrigger,
    every,
)
from leasehold.errors import BlockingCall, UnknownDefinition
from leasehold.model.cron import Cron
from leasehold.model.trigger import Origin

HOUR = timedelta(hours=1)
Sync = TypedDefinition[[str], int]


@pytest.fixture
def sync(app: Leasehold) -> Sync:
    @app.job
    async def sync_folder(job: Job, path: str = "/") -> int:
        return len(path)

    return sync_folder


@pytest.fixture
def triggers(app: Leasehold) -> TenantTriggers:
    return app.tenant("acme").triggers


async def test_a_schedule_is_saved_with_its_options(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        saved = await triggers.acreate(
            sync,
            schedule="0 2 * * *",
            zone="Europe/Berlin",
            payload={"path": "/"},
            label="Nightly sync",
            catch_up="all",
            catch_up_cap=3,
            created_by="ada",
        )
        assert await triggers.aget(saved.id) == saved
        assert await triggers.alist() == [saved]
    assert (saved.tenant, saved.rule.label, saved.rule.definition) == ("acme", "Nightly sync", "sync_folder")
    assert (saved.origin, saved.version, saved.created_by) == (Origin.DATA, 1, "ada")
    assert saved.next_at is not None
    assert saved.next_at > saved.created_at


def test_blocking_verbs_do_the_same(triggers: TenantTriggers, sync: Sync) -> None:
    saved = triggers.create(sync, schedule=every("15m"))
    assert triggers.get(saved.id).rule.schedule == every("15m")
    assert [each.id for each in triggers.list()] == [saved.id]
    assert triggers.update(saved.id, payload={"path": "/a"}).version == 2
    assert triggers.pause(saved.id, "holidays", until="2h").pause is not None
    assert triggers.resume(saved.id).pause is None
    assert triggers.decisions(saved.id) == []
    assert len(triggers.preview(saved.id, 3).runs) == 3
    triggers.delete(saved.id)
    assert triggers.restore(saved.id).id == saved.id
    triggers.delete(saved.id)
    assert triggers.list() == []


async def test_a_blocking_verb_on_a_loop_names_its_twin(triggers: TenantTriggers, sync: Sync) -> None:
    with pytest.raises(BlockingCall, match=r"await ….acreate\(…\)"):
        triggers.create(sync, schedule=every("15m"))


async def test_a_trigger_of_another_tenant_is_unknown(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@daily")
        others = app.tenant("other").triggers
        assert await others.alist() == []
        for ask in (others.aget, others.adelete, others.aresume, others.adecisions, others.apreview):
            with pytest.raises(UnknownTrigger, match=f'LH-1030: tenant "other" has no trigger {saved.id}'):
                await ask(saved.id)
        with pytest.raises(UnknownTrigger):
            await others.aupdate(saved.id, enabled=False)
        assert await triggers.aget(saved.id) == saved
        await triggers.adelete(saved.id)
        with pytest.raises(UnknownTrigger, match=f"no trigger {saved.id} of other is deleted"):
            await others.arestore(saved.id)


async def test_a_trigger_for_all_tenants_is_not_a_tenants(app: Leasehold, sync: Sync) -> None:
    async with app.open():
        saved = await app.triggers.acreate(sync, schedule="@daily", spread="30m")
        assert (saved.tenant, [each.id for each in await app.triggers.alist()]) == (ALL, [saved.id])
        assert await app.tenant("acme").triggers.alist() == []


async def test_triggers_are_listed_page_by_page(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        saved = [await triggers.acreate(sync, schedule="@daily", label=f"number {number}") for number in range(3)]
        first = await triggers.alist(2)
        assert [*first, *await triggers.alist(2, after=first[-1].id)] == saved


async def test_a_changed_schedule_begins_at_that_moment(
    app: Leasehold, triggers: TenantTriggers, sync: Sync, clock: Clock
) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@daily", catch_up="all")
        await clock.move(10 * 24 * HOUR)
        changed = await triggers.aupdate(saved.id, schedule="@hourly", zone="Asia/Kolkata")
        assert changed.next_at is not None
        assert changed.next_at - changed.updated_at <= HOUR


async def test_a_changed_cron_keeps_its_zone(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@daily", zone="Asia/Kolkata")
        changed = await triggers.aupdate(saved.id, schedule="@hourly")
        assert changed.rule.schedule == Cron("@hourly", "Asia/Kolkata")
        changed = await triggers.aupdate(saved.id, zone="Europe/Berlin")
        assert changed.rule.schedule == Cron("@hourly", "Europe/Berlin")
        assert (await triggers.aupdate(saved.id, schedule=Cron("@daily"))).rule.schedule == Cron("@daily", "UTC")


async def test_another_change_keeps_the_place_of_a_schedule(
    app: Leasehold, triggers: TenantTriggers, sync: Sync, clock: Clock
) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@hourly")
        await clock.move(10 * HOUR)
        changed = await triggers.aupdate(saved.id, payload={"path": "/a"}, label="other")
        assert (changed.cursor, changed.next_at) == (saved.cursor, saved.next_at)


async def test_decisions_tell_what_became_of_fires(
    app: Leasehold, triggers: TenantTriggers, sync: Sync, clock: Clock
) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@hourly")
        await clock.move(3 * HOUR)
        await app.store.schedules.fire_due()
        fired, missed = await triggers.adecisions(saved.id)
        assert (fired.kind, missed.kind, missed.count) == (DecisionKind.FIRED, DecisionKind.MISSED, 2)
        assert fired.job is not None
        assert (await app.tenant("acme").aget(fired.job)).source_ref == f"{saved.id}@{_text(fired.fire_at)}"


def _text(moment: datetime | None) -> str:
    assert moment is not None
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


# ---------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"schedule": "0 0 31 2 *"}, "never fires"),
        ({"schedule": "0 25 * * *"}, "hour '25' is out of range: 25 is not in 0-23"),
        ({"schedule": "0 0 2 * * *"}, "six fields"),
        ({"schedule": "@daily", "zone": "Europe/Berln"}, "Europe/Berlin"),
        ({"schedule": every("15m"), "zone": "Europe/Berlin"}, "an interval has no local time"),
        ({"schedule": "@daily", "payload": {"pth": "/"}}, 'unknown field \\(did you mean "path"\\?\\)'),
        ({"schedule": "@daily", "payload": {"path": 7}}, "can never give a valid payload"),
        ({"schedule": "@daily", "payload": {"path": "{{event.path}}"}}, "not one of schedule, tenant"),
        ({"schedule": "@daily", "catch_up": "some"}, "none of skip, latest, all"),
        ({"schedule": "@daily", "spread": "30m"}, "is for a schedule of all tenants"),
        ({}, "neither an event nor a schedule"),
    ],
)
async def test_a_schedule_that_could_never_work_is_refused(
    app: Leasehold, triggers: TenantTriggers, sync: Sync, options: dict[str, Any], why: str
) -> None:
    async with app.open():
        with pytest.raises(InvalidInput, match=why):
            await triggers.acreate(sync, **options)
        assert await triggers.alist() == []


async def test_an_unknown_definition_is_refused(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        await triggers.acreate(sync, schedule="@daily")
        with pytest.raises(UnknownDefinition, match='Did you mean "sync_folder"'):
            await triggers.acreate("sync_foldr", schedule="@daily")


async def test_an_unknown_field_is_refused(app: Leasehold, triggers: TenantTriggers, sync: Sync) -> None:
    async with app.open():
        saved = await triggers.acreate(sync, schedule="@daily")
        with pytest.raises(InvalidInput, match="a trigger has no field 'colour'"):
            await triggers.aupdate(saved.id, colour="red")

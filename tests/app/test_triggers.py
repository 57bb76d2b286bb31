"""Triggers by code and by tenant handles: the same rows, and mistakes are refused before they are saved."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import Clock, eventually

from leasehold import (
    ALL,
    DecisionKind,
    InvalidInput,
    Job,
    Leasehold,
    TenantTriggers,
    Trigger,
    TypedDefinition,
    UnknownTrigger,
    WrongState,
    every,
)
from leasehold.errors import BlockingCall, NoTenant, UnknownDefinition, UnusableHandler
from leasehold.model.cron import Cron
from leasehold.model.trigger import Origin
from leasehold.store import TriggerChange

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


# -------------------------------------------------------------------------------------------------------- by handles


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


# ----------------------------------------------------------------------------------------------------------- by code


def declare(app: Leasehold, **options: Any) -> Sync:
    @app.schedule(**{"schedule": "0 2 * * *", "tenant": "acme", **options})
    @app.job
    async def sync_folder(job: Job, path: str = "/") -> int:
        return 0

    return sync_folder


async def synced(app: Leasehold) -> list[TriggerChange]:
    async with app.open():
        await app.store.sync_definitions(app.handlers.definitions)
        return list(await app.handlers.sync_triggers(app.store))


async def listed(app: Leasehold) -> list[Trigger]:
    async with app.open():
        return list(await app.store.all_triggers.list(100))


@pytest.fixture
def another(database_url: str) -> Callable[[], Leasehold]:
    """The next release of the code, on the same database."""
    return lambda: Leasehold(database_url)


async def test_a_declared_schedule_is_saved_and_says_so(app: Leasehold) -> None:
    declare(app, zone="Europe/Berlin", payload={"path": "/a"})
    (change,) = await synced(app)
    assert (change.created, change.label, change.tenant) == (True, "sync_folder", "acme")
    (saved,) = await listed(app)
    assert (saved.id, saved.origin, saved.rule.payload) == (change.id, Origin.CODE, {"path": "/a"})


async def test_a_second_sync_changes_nothing(app: Leasehold) -> None:
    declare(app)
    await synced(app)
    before = await listed(app)
    (change,) = await synced(app)
    assert not change.differs
    assert await listed(app) == before


async def test_a_changed_declaration_changes_the_same_trigger(
    app: Leasehold, another: Callable[[], Leasehold]
) -> None:
    declare(app)
    await synced(app)
    newer = another()
    declare(newer, schedule="0 3 * * *")
    (change,) = await synced(newer)
    (saved,) = await listed(newer)
    assert (set(change.fields), saved.id, saved.version) == ({"schedule"}, change.id, 2)


async def test_a_declaration_that_is_gone_removes_the_trigger(
    app: Leasehold, another: Callable[[], Leasehold]
) -> None:
    declare(app)
    await synced(app)
    newer = another()

    @newer.job
    async def sync_folder(job: Job, path: str = "/") -> int:
        return 0

    (change,) = await synced(newer)
    assert (change.removed, await listed(newer)) == (True, [])
    (change,) = await synced(app)
    assert (change.created, [each.id for each in await listed(app)]) == (True, [change.id])


async def test_code_of_other_definitions_leaves_a_trigger_alone(
    app: Leasehold, another: Callable[[], Leasehold]
) -> None:
    declare(app)
    await synced(app)
    other = another()

    @other.job
    async def unrelated(job: Job) -> None: ...

    assert await synced(other) == []
    assert len(await listed(other)) == 1


async def test_two_apps_may_use_the_same_label(app: Leasehold, another: Callable[[], Leasehold]) -> None:
    declare(app, label="nightly")
    other = another()

    @other.schedule("0 4 * * *", tenant="acme", label="nightly")
    @other.job
    async def bill(job: Job) -> None: ...

    await synced(app)
    await synced(other)
    assert not (await synced(app))[0].differs
    assert {each.rule.definition for each in await listed(app)} == {"sync_folder", "bill"}


async def test_a_declared_trigger_is_paused_but_not_edited(app: Leasehold) -> None:
    declare(app)
    (change,) = await synced(app)
    triggers = app.tenant("acme").triggers
    async with app.open():
        with pytest.raises(WrongState, match="declared in code, and can't be changed here"):
            await triggers.aupdate(change.id, enabled=False)
        with pytest.raises(WrongState, match="declared in code, and can't be deleted here"):
            await triggers.adelete(change.id)
        assert (await triggers.apause(change.id, "holidays")).pause is not None
    assert not (await synced(app))[0].differs
    assert (await listed(app))[0].pause is not None


async def test_a_trigger_of_code_that_is_gone_is_deleted_by_force(app: Leasehold) -> None:
    declare(app)
    (change,) = await synced(app)
    triggers = app.tenant("acme").triggers
    async with app.open():
        with pytest.raises(WrongState, match=f"If that code is gone: leasehold triggers rm {change.id} --force"):
            await triggers.adelete(change.id)
        await triggers.adelete(change.id, force=True)
        assert await triggers.alist() == []
    (change,) = await synced(app)
    assert (change.created, len(await listed(app))) == (True, 1)


async def test_a_worker_saves_declared_schedules_and_logs_it(
    app: Leasehold, caplog: pytest.LogCaptureFixture
) -> None:
    declare(app)
    with caplog.at_level(logging.INFO, "leasehold.worker.events"):
        async with app.open(worker=True):
            assert len(await app.tenant("acme").triggers.alist()) == 1
    assert "schedule 'sync_folder' of acme: saved" in caplog.text


async def test_an_apps_own_worker_fires_its_schedules(app: Leasehold) -> None:
    @app.schedule(every("1s"), tenant="acme")
    @app.job
    async def tick_tock(job: Job) -> str:
        return "tock"

    async with app.open(worker=True):
        (saved,) = await app.tenant("acme").triggers.alist()
        fired = await _first_job(app, saved.id)
        record = await app.tenant("acme").jobs.wait_until_final(fired, 30)
    assert record is not None
    assert record.result == "tock"


async def _first_job(app: Leasehold, trigger: str) -> Any:
    found: list[Any] = []

    async def fired() -> bool:
        found[:] = [each.job for each in await app.tenant("acme").triggers.adecisions(trigger) if each.job]
        return bool(found)

    await eventually(fired, what="a fire")
    return found[0]


def test_an_app_with_one_tenant_need_not_name_it(database_url: str) -> None:
    app = Leasehold(database_url, tenant="default")
    declare(app, tenant=None)
    (declared,) = app.handlers.triggers
    assert declared.tenant == "default"


def test_a_schedule_needs_a_tenant(app: Leasehold) -> None:
    with pytest.raises(NoTenant, match=r"app.schedule\(…\) needs a tenant"):
        declare(app, tenant=None)


def test_two_schedules_of_a_handler_need_labels(app: Leasehold) -> None:
    sync = declare(app)
    with pytest.raises(
        InvalidInput, match="two triggers of 'sync_folder' for one tenant have the label 'sync_folder'"
    ):
        app.schedule("0 3 * * *", tenant="acme")(sync)
    app.schedule("0 3 * * *", tenant="acme", label="later")(sync)
    app.schedule("0 3 * * *", tenant=ALL, spread="1h")(sync)
    assert len(app.handlers.triggers) == 3


def test_a_schedule_stands_above_the_job(app: Leasehold) -> None:
    with pytest.raises(UnusableHandler, match=r"Write @app.schedule\(…\) above @app.job"):

        @app.schedule("@daily", tenant="acme")  # type: ignore[type-var]
        def sync_folder(job: Job) -> None: ...


def test_a_payload_that_never_fits_is_refused_at_once(app: Leasehold) -> None:
    with pytest.raises(InvalidInput, match="can never give a valid payload"):
        declare(app, payload={"path": 7})

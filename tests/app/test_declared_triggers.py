"""Schedules that are declared in code: what a sync saves, changes and removes."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import eventually

from leasehold import (
    ALL,
    InvalidInput,
    Job,
    Leasehold,
    Trigger,
    TypedDefinition,
    WrongState,
    every,
)
from leasehold.errors import NoTenant, UnusableHandler
from leasehold.model.trigger import Origin
from leasehold.store import TriggerChange

Sync = TypedDefinition[[str], int]


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
        record = await app.tenant("acme").jobs.await_until_final(fired, 30)
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

"""Events by tenant handles: emitted with the jobs of their triggers, in the caller's transaction or in their own."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.conftest import Clock, Raw

from leasehold import (
    ALL,
    DecisionKind,
    InvalidInput,
    Job,
    Leasehold,
    PayloadInvalid,
    Tenant,
    TypedDefinition,
)
from leasehold.errors import BlockingCall, NoTenant, UnknownDefinition, UnusableHandler
from leasehold.model.decision import Match, NoMatch, Problem, Reason
from leasehold.model.event import NewEvent
from leasehold.model.trigger import Origin
from leasehold.testing.inline import inline

FOLDER = "provider.folder.updated"
TEMPLATE = {"path": "{{event.folder_path}}"}
Sync = TypedDefinition[[str], int]


@pytest.fixture
def sync(app: Leasehold) -> Sync:
    @app.job
    async def sync_folder(job: Job, path: str) -> int:
        return len(path)

    return sync_folder


@pytest.fixture
def acme(app: Leasehold) -> Tenant:
    return app.tenant("acme")


@pytest.fixture
def trigger(acme: Tenant, sync: Sync) -> str:
    return acme.triggers.create(event=FOLDER, definition=sync, payload=TEMPLATE).id


# -------------------------------------------------------------------------------------------------------------- emit


def test_an_event_makes_the_job_of_its_trigger(acme: Tenant, trigger: str) -> None:
    emitted = acme.options(correlation_id="c").emit(FOLDER, {"folder_path": "/a"})
    (job,) = emitted.jobs
    assert (acme.get(job).payload, acme.get(job).correlation_id) == ({"path": "/a"}, "c")
    assert [(decision.trigger, decision.kind) for decision in emitted.decisions] == [(trigger, DecisionKind.FIRED)]
    assert emitted.expanded


async def test_an_awaited_emit_does_the_same(app: Leasehold, acme: Tenant, sync: Sync) -> None:
    async with app.open():
        await acme.triggers.acreate(sync, event=FOLDER, payload=TEMPLATE)
        emitted = await acme.aemit(FOLDER, {"folder_path": "/a"})
        assert (await acme.aget(emitted.jobs[0])).payload == {"path": "/a"}


async def test_a_blocking_emit_on_a_loop_names_its_twin(acme: Tenant) -> None:
    with pytest.raises(BlockingCall, match=r"await ….aemit\(…\)"):
        acme.emit(FOLDER)


@pytest.mark.parametrize("name", ["", "provider folder", "provider.*", ".a", 7])
def test_a_name_that_is_not_dotted_words_is_refused(acme: Tenant, name: Any) -> None:
    with pytest.raises(InvalidInput, match="event name"):
        acme.emit(name)


def test_data_has_the_limits_of_a_payload(acme: Tenant) -> None:
    with pytest.raises(PayloadInvalid, match="data"):
        acme.emit("list.created", {"text": "x" * 300_000})


def test_options_of_jobs_are_refused_for_events(acme: Tenant) -> None:
    with pytest.raises(InvalidInput, match="delay=… is an option of jobs"):
        acme.options(delay="5m").emit("list.created")


def test_an_app_with_one_tenant_emits_by_itself(database_url: str) -> None:
    app = Leasehold(database_url, tenant="default")
    assert app.emit("list.created").tenant == "default"
    app.close()


def test_an_app_with_many_tenants_needs_one_to_emit(app: Leasehold) -> None:
    with pytest.raises(NoTenant):
        app.emit("list.created")


def test_inline_tests_run_the_jobs_of_events(app: Leasehold, acme: Tenant, trigger: str) -> None:
    with inline(app):
        emitted = acme.emit(FOLDER, {"folder_path": "/abc"})
    assert acme.get(emitted.jobs[0]).result == 4


# ------------------------------------------------------------------------------------------------------------ within


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as opened:
        yield opened


def test_a_commit_keeps_the_event_and_its_jobs(acme: Tenant, trigger: str, connection: psycopg.Connection) -> None:
    with connection.transaction():
        emitted = acme.within(connection).emit(FOLDER, {"folder_path": "/a"})
    assert acme.get(emitted.jobs[0]).payload == {"path": "/a"}


def test_a_rollback_leaves_nothing_of_an_event(acme: Tenant, trigger: str, connection: psycopg.Connection) -> None:
    with connection.transaction(force_rollback=True):
        emitted = acme.within(connection).emit(FOLDER, {"folder_path": "/a"})
        assert len(emitted.jobs) == 1
    assert acme.triggers.decisions(trigger) == []
    assert connection.execute("select count(*) from leasehold.events").fetchone() == (0,)
    assert connection.execute("select count(*) from leasehold.jobs").fetchone() == (0,)


def test_autocommit_keeps_an_event_and_its_jobs_together(acme: Tenant, trigger: str, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        emitted = acme.within(connection, atomic=False).emit(FOLDER, {"folder_path": "/a"})
        unmatched = acme.within(connection, atomic=False).emit("list.created")
    assert (len(emitted.jobs), unmatched.jobs) == (1, ())
    assert acme.get(emitted.jobs[0]).payload == {"path": "/a"}


async def test_an_awaited_emit_is_part_of_a_transaction(
    app: Leasehold, acme: Tenant, sync: Sync, observer: Raw
) -> None:
    async with app.open():
        await acme.triggers.acreate(sync, event=FOLDER, payload=TEMPLATE)
        async with observer.transaction():
            emitted = await acme.within(observer).aemit(FOLDER, {"folder_path": "/a"})
        assert (await acme.aget(emitted.jobs[0])).payload == {"path": "/a"}


# ------------------------------------------------------------------------------------------------------- bad triggers


def test_an_unknown_definition_is_refused(acme: Tenant, sync: Sync) -> None:
    with pytest.raises(UnknownDefinition):
        acme.triggers.create(event=FOLDER, definition="nothing")


def test_a_template_that_can_never_be_valid_is_refused(acme: Tenant, sync: Sync) -> None:
    with pytest.raises(InvalidInput, match="can never give a valid payload"):
        acme.triggers.create(sync, event=FOLDER, payload={"paht": "{{event.folder_path}}"})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"event": "*"}, "all events is not supported"),
        ({"event": FOLDER, "schedule": "@daily"}, "both an event and a schedule"),
        ({"event": FOLDER, "filter": {"size": {"above": 1}}}, "is not a comparison"),
        ({"event": FOLDER, "payload": {"path": "{{schedule.fire_at}}"}}, "is not one of event"),
        ({"event": FOLDER, "trailing": True, "dedupe_window": 0}, "trailing needs"),
    ],
)
def test_a_trigger_that_could_never_work_is_refused(
    acme: Tenant, sync: Sync, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        acme.triggers.create(sync, **{"payload": TEMPLATE, **options})
    assert acme.triggers.list() == []


# ------------------------------------------------------------------------------------------------------------ by code


async def test_a_trigger_of_the_code_is_saved_by_workers(app: Leasehold, sync: Sync) -> None:
    app.on("provider.*", tenant="acme", payload=TEMPLATE, filter={"size": {"gt": 1}})(sync)
    async with app.open(worker=True):
        (saved,) = await app.tenant("acme").triggers.alist()
        assert (saved.rule.event, saved.rule.label) == ("provider.*", "sync_folder on provider.*")
        assert saved.origin is Origin.CODE
        emitted = await app.tenant("acme").aemit(FOLDER, {"folder_path": "/a", "size": 2})
    assert len(emitted.jobs) == 1


def test_an_event_and_a_schedule_of_one_job_have_two_labels(app: Leasehold, sync: Sync) -> None:
    app.schedule("@daily", tenant="acme", payload={"path": "/"})(sync)
    app.on(FOLDER, tenant=ALL, payload=TEMPLATE)(sync)
    assert [trigger.rule.label for trigger in app.handlers.triggers] == ["sync_folder", f"sync_folder on {FOLDER}"]


def test_on_is_written_above_job(app: Leasehold) -> None:
    with pytest.raises(UnusableHandler, match="is not a job yet"):

        @app.job  # type: ignore[type-var]
        @app.on(FOLDER, tenant="acme")
        def sync_folder(job: Job) -> None: ...


# ---------------------------------------------------------------------------------------------- look before it fires


def test_a_test_tells_what_each_trigger_would_do(acme: Tenant, sync: Sync, trigger: str) -> None:
    acme.triggers.create(sync, event="list.*", payload=TEMPLATE, label="other")
    acme.triggers.create(sync, event="provider.*", payload={"path": "{{event.missing}}"}, label="missing")
    found = {each.trigger.rule.label: each.result for each in acme.triggers.test(FOLDER, {"folder_path": "/a"})}
    match, other, missing = found["sync_folder"], found["other"], found["missing"]
    assert isinstance(match, Match)
    assert match.payload == {"path": "/a"}
    assert isinstance(other, NoMatch)
    assert (other.reason, other.why) == (Reason.NAME, f"{FOLDER} is not list.*")
    assert isinstance(missing, Problem)
    assert missing.reason is Reason.TEMPLATE


def test_a_test_tells_which_job_holds_the_key(acme: Tenant, trigger: str) -> None:
    (before,) = acme.triggers.test(FOLDER, {"folder_path": "/a"})
    emitted = acme.emit(FOLDER, {"folder_path": "/a"})
    (after,) = acme.triggers.test(FOLDER, {"folder_path": "/a"})
    assert (before.fires, before.holder, after.fires) == (True, None, False)
    assert after.holder is not None
    assert after.holder.job == emitted.jobs[0]


def test_a_test_asks_all_triggers_page_by_page(acme: Tenant, sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.operations.events.AT_MOST", 2)
    labels = [
        acme.triggers.create(label=f"sync {n}", event=FOLDER, definition=sync, payload=TEMPLATE).rule.label
        for n in range(5)
    ]
    tested = acme.triggers.test(FOLDER, {"folder_path": "/a"})
    assert sorted(each.trigger.rule.label for each in tested) == labels


def test_a_test_writes_nothing(acme: Tenant, trigger: str, connection: psycopg.Connection) -> None:
    acme.triggers.test(FOLDER, {"folder_path": "/a"})
    for table in ("events", "jobs", "trigger_decisions", "dedupe_holds"):
        assert connection.execute(f"select count(*) from leasehold.{table}").fetchone() == (0,)  # noqa: S608


def test_a_test_includes_triggers_of_all_tenants(app: Leasehold, acme: Tenant, sync: Sync) -> None:
    app.triggers.create(sync, event=FOLDER, payload={"path": "{{tenant}}"})
    (tested,) = acme.triggers.test(FOLDER)
    assert isinstance(tested.result, Match)
    assert tested.result.payload == {"path": "acme"}


def test_a_test_needs_a_tenant(app: Leasehold) -> None:
    with pytest.raises(NoTenant):
        app.triggers.test(FOLDER)


async def test_what_a_test_says_is_what_an_emit_does(app: Leasehold, acme: Tenant, sync: Sync, clock: Clock) -> None:
    async with app.open():
        for number, path in enumerate(("{{event.a}}", "{{event.b}}", "x{{event.a}}")):
            await acme.triggers.acreate(sync, event=FOLDER, payload={"path": path}, label=f"number {number}")
        for data in ({"a": "1"}, {"a": 1}, {"b": "2"}, {}, {"a": "1"}):
            tested = await acme.triggers.atest(FOLDER, data)
            emitted = await acme.aemit(FOLDER, data)
            fired = {each.trigger for each in emitted.decisions if each.kind is DecisionKind.FIRED}
            assert {each.trigger.id for each in tested if each.fires} == fired


def test_a_new_event_keeps_its_data_as_json() -> None:
    assert NewEvent("list.created", {"a": 1}).text == '{"a":1}'

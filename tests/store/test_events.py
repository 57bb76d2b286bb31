"""Events: matching triggers make their jobs with the event or not at all, and every decision is recorded."""

import asyncio
from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.store.event_kit import FOLDER, NOON, Events, kinds_of, rule
from tests.store.event_kit import events as events
from tests.store.event_kit import noon as noon
from tests.store.wake_listener import asleep
from tests.tenant_kit import ACME, OTHER, SECOND

from leasehold.errors import UnknownTenant
from leasehold.model.decision import DecisionKind, Reason
from leasehold.model.definition import Definition
from leasehold.model.event import NewEvent
from leasehold.model.job import Source, TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Every
from leasehold.model.trigger import ALL, NewTrigger
from leasehold.store import Store, Wake

pytestmark = pytest.mark.abilities("schedules")

SCAN = Definition(
    "scan",
    schema={"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
)


# -------------------------------------------------------------------------------------------------------------- emit


async def test_an_event_without_triggers_is_written(events: Events) -> None:
    emitted = await events.emit("list.created", id=7)
    (event,) = await events.store.events(ACME).list(10)
    assert (event.id, event.name, event.data) == (emitted.id, "list.created", {"id": 7})
    assert (event.at, event.expanded_at) == (NOON, NOON)
    assert (emitted.expanded, emitted.decisions, await events.jobs()) == (True, (), [])


async def test_a_matching_trigger_makes_a_job(events: Events) -> None:
    trigger = await events.add(payload={"path": "{{event.folder.path}}", "name": "{{event_name}}"})
    emitted = await events.emit(folder={"path": "/a"})
    (job,) = await events.jobs()
    assert (job.definition, job.payload, job.due) == ("report", {"path": "/a", "name": FOLDER}, True)
    assert (job.source, job.source_ref) == (Source.EVENT, f"{trigger.id}@{emitted.id}")
    assert (emitted.expanded, emitted.jobs) == (True, (job.id,))
    (decision,) = await events.decisions(trigger)
    assert (decision.kind, decision.event, decision.job, decision.at) == (
        DecisionKind.FIRED,
        emitted.id,
        job.id,
        NOON,
    )


async def test_an_answer_has_the_decisions_that_are_recorded(events: Events) -> None:
    trigger = await events.add()
    emitted = await events.emit()
    assert list(emitted.decisions) == await events.decisions(trigger)


async def test_decisions_are_found_by_their_events(events: Events) -> None:
    one, every = await events.add(), await events.add("provider.*", tenant=ALL, label="every")
    first, second = await events.emit(n=1), await events.emit("provider.list.updated", n=2)
    await events.emit("nobody.listens")
    await events.emit(tenant=OTHER)
    found = await events.store.events(ACME).list(10)
    decisions = await events.store.events(ACME).decisions(found, [one, every])
    decided = {(each.event, each.trigger) for each in decisions}
    assert decided == {(second.id, every.id), (first.id, every.id), (first.id, one.id)}
    assert decisions[0].event == second.id
    assert await events.store.events(OTHER).decisions(found, [one, every]) == []


async def test_the_latest_decision_of_each_trigger_is_found(events: Events) -> None:
    one, other = await events.add(), await events.add("list.created", label="other")
    await events.add("nobody.listens", label="silent")
    for number in range(3):
        await events.move(timedelta(minutes=10))
        await events.emit(n=number)
    await events.emit("list.created")
    ids = [each.id for each in await events.store.triggers(ACME).list(10)]
    found = {each.trigger: each for each in await events.store.triggers(ACME).latest_decisions(ids)}
    assert found.keys() == {one.id, other.id}
    assert found[one.id] == (await events.decisions(one))[-1]
    assert await events.store.triggers(OTHER).latest_decisions(ids) == []


async def test_each_matching_trigger_makes_its_own_job(events: Events) -> None:
    for number in range(3):
        await events.add(label=f"number {number}", payload={"number": number})
    emitted = await events.emit()
    assert sorted(payload["number"] for payload in await events.payloads()) == [0, 1, 2]
    assert len(emitted.jobs) == 3


async def test_jobs_have_the_correlation_id_of_the_event(events: Events) -> None:
    await events.add()
    await events.store.events(ACME).emit(NewEvent(FOLDER, {}, correlation_id="order-7", created_by="ada"))
    (job,) = await events.jobs()
    (event,) = await events.store.events(ACME).list(10)
    assert (job.correlation_id, event.correlation_id, event.created_by) == ("order-7", "order-7", "ada")


async def test_events_are_listed_newest_first_by_pages(events: Events) -> None:
    emitted = [await events.emit("list.created", number=number) for number in range(3)]
    listed = await events.store.events(ACME).list(2)
    assert [event.id for event in listed] == [emitted[2].id, emitted[1].id]
    (last,) = await events.store.events(ACME).list(2, before=listed[-1].id)
    assert last.id == emitted[0].id


async def test_events_are_listed_by_name(events: Events) -> None:
    await events.emit("list.created")
    await events.emit(FOLDER)
    assert [event.name for event in await events.store.events(ACME).list(10, name=FOLDER)] == [FOLDER]


async def test_a_strict_store_refuses_events_of_unknown_tenants(events: Events) -> None:
    await events.store.set_strict_tenants(True)
    with pytest.raises(UnknownTenant):
        await events.emit(tenant=TenantId("stranger"))


# ------------------------------------------------------------------------------------------------------------- match


@pytest.mark.parametrize("pattern", [FOLDER, "provider.folder.*", "provider.*"])
async def test_a_pattern_selects_the_name(events: Events, pattern: str) -> None:
    await events.add(pattern)
    assert len((await events.emit()).jobs) == 1


@pytest.mark.parametrize("pattern", ["provider.folder", "provider.folder.updated.*", "list.*", "provide.*"])
async def test_another_pattern_does_not(events: Events, pattern: str) -> None:
    trigger = await events.add(pattern)
    assert (await events.emit()).decisions == ()
    assert await events.kinds(trigger) == []


async def test_a_filter_chooses_by_the_data(events: Events) -> None:
    trigger = await events.add(filter={"size": {"gt": 100}})
    assert kinds_of(await events.emit(size=100)) == []
    assert kinds_of(await events.emit(size=101)) == [DecisionKind.FIRED]
    assert await events.kinds(trigger) == [DecisionKind.FIRED]


async def test_a_trigger_of_another_tenant_does_not_match(events: Events) -> None:
    others = await events.add(tenant=OTHER)
    assert (await events.emit()).decisions == ()
    assert (await events.decisions(others), await events.jobs(OTHER)) == ([], [])


async def test_a_tenant_sees_only_its_own_events(events: Events) -> None:
    await events.emit(tenant=OTHER)
    assert await events.store.events(ACME).list(10) == []


async def test_a_trigger_of_all_tenants_matches_each(events: Events) -> None:
    trigger = await events.add(tenant=ALL, payload={"tenant": "{{tenant}}"})
    await events.emit()
    await events.emit(tenant=OTHER)
    assert await events.payloads() == [{"tenant": "acme"}]
    assert await events.payloads(OTHER) == [{"tenant": "other"}]
    assert [decision.tenant for decision in await events.decisions(trigger)] == [ACME, OTHER]


async def test_a_disabled_or_deleted_trigger_is_not_asked(events: Events) -> None:
    await events.add(enabled=False)
    deleted = await events.add()
    await events.store.triggers(ACME).delete(deleted.id)
    assert (await events.emit()).decisions == ()


async def test_a_changed_trigger_makes_the_changed_job(events: Events) -> None:
    trigger = await events.add(payload={"n": 1})
    await events.emit()
    await events.store.triggers(ACME).change(trigger, rule(payload={"n": 2}))
    await events.emit()
    assert await events.payloads() == [{"n": 1}, {"n": 2}]


async def test_a_paused_trigger_skips_until_its_pause_ends(events: Events) -> None:
    trigger = await events.add(dedupe_window=timedelta())
    await events.store.triggers(ACME).pause(trigger.id, Pause("holidays", NOON + SECOND))
    await events.emit()
    await events.move(SECOND)
    await events.emit()
    skipped, fired = await events.decisions(trigger)
    assert (skipped.kind, skipped.reason) == (DecisionKind.SKIPPED, Reason.PAUSED)
    assert "holidays" in skipped.why
    assert fired.kind is DecisionKind.FIRED


async def test_a_schedule_is_not_fired_by_an_event(events: Events) -> None:
    await events.store.triggers(ACME).add(NewTrigger(label="hourly", definition="report", schedule=Every("1h")))
    assert (await events.emit()).decisions == ()


# ------------------------------------------------------------------------------------------------------------ errors


async def test_a_missing_path_is_an_error_and_no_job(events: Events) -> None:
    trigger = await events.add(payload={"path": "{{event.folder.path}}"})
    emitted = await events.emit(folder={})
    (decision,) = await events.decisions(trigger)
    assert (decision.kind, decision.reason, decision.event) == (DecisionKind.ERROR, Reason.TEMPLATE, emitted.id)
    assert "event.folder.path" in decision.why
    assert await events.jobs() == []


async def test_an_invalid_payload_is_an_error_and_no_job(events: Events) -> None:
    await events.store.sync_definitions([SCAN])
    trigger = await events.add(definition="scan", payload={"size": "{{event.size}}"})
    await events.emit(size="large")
    (decision,) = await events.decisions(trigger)
    assert (decision.kind, decision.reason) == (DecisionKind.ERROR, Reason.INVALID_PAYLOAD)
    assert await events.jobs() == []


async def test_an_error_of_one_trigger_stops_no_other(events: Events) -> None:
    await events.add(label="wrong", payload={"path": "{{event.nothing}}"})
    await events.add(label="right", payload={"n": 1})
    emitted = await events.emit()
    assert sorted(kinds_of(emitted)) == [DecisionKind.ERROR, DecisionKind.FIRED]
    assert await events.payloads() == [{"n": 1}]


async def test_an_inactive_definition_is_skipped(events: Events) -> None:
    trigger = await events.add()
    await events.store.activate("report", False)
    await events.emit()
    (decision,) = await events.decisions(trigger)
    assert (decision.kind, decision.reason) == (DecisionKind.SKIPPED, Reason.INACTIVE_DEFINITION)


async def test_a_value_is_never_rendered_again(events: Events) -> None:
    await events.add(payload={"text": "{{event.text}}"})
    await events.emit(text="{{event.secret}}", secret="hunter2")
    assert await events.payloads() == [{"text": "{{event.secret}}"}]


# ------------------------------------------------------------------------------------------------------------ dedupe


async def test_an_equal_payload_is_dropped_in_the_window(events: Events) -> None:
    trigger = await events.add(payload={"path": "{{event.path}}"}, dedupe_window=timedelta(seconds=120))
    first = await events.emit(path="/a")
    await events.move(119 * SECOND)
    second = await events.emit(path="/a", other=1)
    other = await events.emit(path="/b")
    await events.move(SECOND)
    after = await events.emit(path="/a")
    assert await events.payloads() == [{"path": "/a"}, {"path": "/b"}, {"path": "/a"}]
    assert [kinds_of(each) for each in (second, other, after)] == [
        [DecisionKind.DEDUPED],
        [DecisionKind.FIRED],
        [DecisionKind.FIRED],
    ]
    _, dropped, *_ = await events.decisions(trigger)
    assert (dropped.event, dropped.job) == (second.id, first.jobs[0])


async def test_two_triggers_do_not_share_a_window(events: Events) -> None:
    await events.add(label="one")
    await events.add(label="two")
    assert len((await events.emit()).jobs) == 2
    assert len((await events.emit()).jobs) == 0


async def test_without_a_window_every_event_makes_a_job(events: Events) -> None:
    await events.add(dedupe_window=timedelta())
    for _ in range(3):
        await events.emit()
    assert len(await events.jobs()) == 3


async def test_a_trailing_trigger_runs_once_more_after_the_window(events: Events) -> None:
    window = timedelta(seconds=60)
    trigger = await events.add(dedupe_window=window, trailing=True, payload={"path": "{{event.path}}"})
    await events.emit(path="/a")
    await events.move(10 * SECOND)
    dropped = [await events.emit(path="/a") for _ in range(3)]
    first, late = await events.jobs()
    assert (first.scheduled_for, late.scheduled_for) == (NOON, NOON + window)
    assert late.payload == {"path": "/a"}
    assert [kinds_of(each) for each in dropped] == [
        [DecisionKind.FIRED],
        [DecisionKind.DEDUPED],
        [DecisionKind.DEDUPED],
    ]
    assert {decision.job for decision in (await events.decisions(trigger))[1:]} == {late.id}


async def test_a_trailing_trigger_runs_once_if_nothing_was_dropped(events: Events) -> None:
    await events.add(dedupe_window=timedelta(seconds=60), trailing=True)
    await events.emit()
    await events.move(60 * SECOND)
    await events.emit()
    assert [job.scheduled_for for job in await events.jobs()] == [NOON, NOON + 60 * SECOND]


async def test_each_window_has_its_own_trailing_run(events: Events) -> None:
    await events.add(dedupe_window=timedelta(seconds=60), trailing=True)
    for _ in range(2):
        await events.emit()
        await events.emit()
        await events.move(60 * SECOND)
    assert [(job.scheduled_for - NOON) / SECOND for job in await events.jobs()] == [0, 60, 60, 120]


async def test_events_at_once_make_one_job_in_a_window(events: Events, stores: list[Store]) -> None:
    trigger = await events.add()
    emits = [store.events(ACME).emit(NewEvent(FOLDER, {})) for store in stores for _ in range(5)]
    emitted = await asyncio.gather(*emits)
    assert sum(len(each.jobs) for each in emitted) == len(await events.jobs()) == 1
    assert sorted(await events.kinds(trigger)) == [DecisionKind.DEDUPED] * 19 + [DecisionKind.FIRED]


async def test_holders_of_dedupe_keys_can_be_looked_up(events: Events) -> None:
    await events.add()
    emitted = await events.emit()
    (job,) = await events.jobs()
    assert job.dedupe_key is not None
    held = await events.store.events(ACME).holders([job.dedupe_key, "free"])
    assert {key: holder.job for key, holder in held.items()} == {job.dedupe_key: emitted.jobs[0]}
    assert await events.store.events(OTHER).holders([job.dedupe_key]) == {}


# ------------------------------------------------------------------------------------------------------------- wakes


@pytest.mark.abilities("wakes")
async def test_a_job_of_an_event_wakes_its_worker(events: Events, bench: Bench) -> None:
    await events.add()
    async with asleep(bench.store, await bench.join()) as listener:
        await events.emit()
        assert await listener.next() is Wake.WORK

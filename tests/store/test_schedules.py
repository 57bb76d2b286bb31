"""Schedules: each fire time makes one job, and what was missed is caught up by the trigger's policy."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.conftest import eventually
from tests.store.bench import Bench
from tests.store.schedule_kit import NOON, Plans, hours, rule
from tests.store.schedule_kit import noon as noon
from tests.store.schedule_kit import plans as plans
from tests.store.wake_listener import asleep, listening
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.errors import UnknownTenant
from leasehold.model.cron import Cron
from leasehold.model.decision import DecisionKind, Reason
from leasehold.model.definition import Definition
from leasehold.model.job import Source, tenant_id
from leasehold.model.schedule import Every
from leasehold.model.trigger import ALL
from leasehold.store import NextFire, Store, Wake

pytestmark = pytest.mark.abilities("schedules")
MINUTE = timedelta(minutes=1)


async def is_true(holds: bool) -> bool:
    return holds


# --------------------------------------------------------------------------------------------------------------- fire


async def test_nothing_fires_before_its_time(plans: Plans) -> None:
    await plans.add()
    await plans.move(59 * MINUTE)
    assert await plans.fire() == 0
    assert await plans.jobs() == []


async def test_a_fire_makes_a_job_and_says_so(plans: Plans) -> None:
    trigger = await plans.add(payload={"path": "/"})
    await plans.move(HOUR)
    assert await plans.fire() == 1
    (job,) = await plans.jobs()
    (decision,) = await plans.decisions(trigger)
    assert (job.definition, job.payload, job.scheduled_for, job.due) == ("report", {"path": "/"}, NOON + HOUR, True)
    assert (job.source, job.source_ref) == (Source.SCHEDULE, f"{trigger.id}@2027-03-10T13:00:00Z")
    assert (decision.kind, decision.job, decision.fire_at) == (DecisionKind.FIRED, job.id, NOON + HOUR)
    assert decision.at == NOON + HOUR


async def test_a_fire_time_makes_one_job(plans: Plans) -> None:
    await plans.add()
    await plans.move(HOUR)
    assert [await plans.fire() for _ in range(3)] == [1, 0, 0]


async def test_a_schedule_goes_on_hour_by_hour(plans: Plans) -> None:
    await plans.add()
    for _ in range(3):
        await plans.move(HOUR)
        await plans.fire()
    assert await plans.fired_at() == hours(1, 2, 3)


async def test_an_interval_counts_from_its_anchor(plans: Plans) -> None:
    await plans.add(Every("90m", anchor=NOON + 20 * MINUTE))
    await plans.move(2 * HOUR)
    await plans.fire()
    assert await plans.fired_at() == [NOON + 110 * MINUTE]


async def test_the_answer_says_when_the_next_one_fires(plans: Plans) -> None:
    await plans.add(label="daily", schedule=Cron("0 15 * * *"))
    await plans.add()
    assert (await plans.store.schedules.fire_due()).next_fire == HOUR
    await plans.move(HOUR + 10 * MINUTE)
    done = await plans.store.schedules.fire_due()
    assert (done.fired, done.next_fire) == (1, 50 * MINUTE)


async def test_no_schedule_means_no_next_fire(plans: Plans) -> None:
    assert (await plans.store.schedules.fire_due()).next_fire is None


async def test_the_job_pins_the_version_of_the_fire(plans: Plans) -> None:
    await plans.add()
    await plans.store.sync_definitions([Definition("report", max_attempts=9)])
    await plans.move(HOUR)
    await plans.fire()
    (job,) = await plans.jobs()
    assert (job.version, job.max_attempts) == (2, 9)


async def test_a_template_knows_fire_previous_and_tenant(plans: Plans) -> None:
    template = {"at": "{{schedule.fire_at}}", "since": "{{schedule.previous}}", "for": "{{tenant}}"}
    await plans.add(payload=template)
    for _ in range(2):
        await plans.move(HOUR)
        await plans.fire()
    first, second = [job.payload for job in await plans.jobs()]
    assert first == {"at": "2027-03-10T13:00:00Z", "since": "2027-03-10T12:00:00Z", "for": "acme"}
    assert second == {"at": "2027-03-10T14:00:00Z", "since": "2027-03-10T13:00:00Z", "for": "acme"}


async def test_the_previous_fire_fits_a_required_text(plans: Plans, store: Store) -> None:
    schema = {"type": "object", "properties": {"since": {"type": "string"}}, "required": ["since"]}
    await store.sync_definitions([Definition("report", schema=schema)])
    await plans.add(payload={"since": "{{schedule.previous}}"})
    await plans.move(3 * HOUR + 10 * MINUTE)
    await plans.fire()
    assert [job.payload["since"] for job in await plans.jobs()] == ["2027-03-10T14:00:00Z"]


@pytest.mark.abilities("wakes")
async def test_a_sleeping_worker_is_woken_for_a_fire(bench: Bench, plans: Plans) -> None:
    await plans.add()
    async with asleep(bench.store, await bench.join()) as listener:
        await plans.move(HOUR)
        await plans.fire()
        assert await listener.next() is Wake.WORK
    assert len(await bench.claim()) == 1


@pytest.mark.abilities("wakes")
async def test_listeners_hear_when_schedules_fire(bench: Bench, plans: Plans) -> None:
    async with listening(bench.store, await bench.join()) as listener:
        await plans.add()
        await plans.move(HOUR)
        await plans.fire()
        await eventually(lambda: is_true(len(listener.fires) == 2))
    assert listener.fires == [NextFire(HOUR), NextFire(HOUR, fired=True)]


# ----------------------------------------------------------------------------------------------------------- catch up


@pytest.mark.parametrize(("catch_up", "ran", "missed"), [("skip", [], 3), ("latest", [3], 2), ("all", [1, 2, 3], 0)])
async def test_three_hours_of_downtime_by_each_policy(
    plans: Plans, catch_up: str, ran: Sequence[int], missed: int
) -> None:
    trigger = await plans.add(catch_up=catch_up)
    await plans.move(3 * HOUR + 10 * MINUTE)
    await plans.fire()
    assert await plans.fired_at() == hours(*ran)
    decisions = await plans.decisions(trigger)
    assert sum(decision.count for decision in decisions if decision.kind is DecisionKind.MISSED) == missed
    await plans.move(50 * MINUTE)
    await plans.fire()
    assert await plans.fired_at() == hours(*ran, 4)


async def test_skip_still_runs_a_fire_that_is_on_time(plans: Plans) -> None:
    await plans.add(catch_up="skip")
    await plans.move(HOUR + timedelta(seconds=59))
    assert await plans.fire() == 1


async def test_all_runs_the_latest_up_to_its_cap(plans: Plans) -> None:
    trigger = await plans.add(Every("1m"), catch_up="all", catch_up_cap=120)
    await plans.move(5 * HOUR)
    assert await plans.fire() == 120
    assert await plans.fired_at() == [NOON + minute * MINUTE for minute in range(181, 301)]
    first, *_ = await plans.decisions(trigger)
    assert (first.kind, first.count, first.fire_at) == (DecisionKind.MISSED, 180, NOON + 180 * MINUTE)


async def test_all_runs_a_thousand_fires_of_a_cron_with_more(plans: Plans) -> None:
    trigger = await plans.add(Cron("* * * * *"), catch_up="all", catch_up_cap=1000)
    await plans.move(1002 * MINUTE)
    assert await plans.fire() == 1000
    *_, first = await plans.triggers.decisions(trigger.id, 2000)
    assert (first.kind, first.fire_at) == (DecisionKind.MISSED, NOON + 2 * MINUTE)


async def test_a_year_of_downtime_is_caught_up_quickly(plans: Plans) -> None:
    trigger = await plans.add(Cron("* * * * *"))
    await plans.move(365 * DAY)
    assert await plans.fire() == 1
    missed, fired = await plans.decisions(trigger)
    assert missed.reason is Reason.DOWN
    assert "more than" in missed.why
    assert fired.fire_at == NOON + 365 * DAY


# -------------------------------------------------------------------------------------------------------- mistakes


async def test_an_inactive_definition_is_skipped(plans: Plans) -> None:
    trigger = await plans.add()
    await plans.store.activate("report", False)
    await plans.move(HOUR)
    assert await plans.fire() == 0
    (decision,) = await plans.decisions(trigger)
    assert (decision.kind, decision.reason) == (DecisionKind.SKIPPED, Reason.INACTIVE_DEFINITION)


async def test_a_payload_that_does_not_fit_is_an_error_and_goes_on(plans: Plans) -> None:
    trigger = await plans.add()
    other = await plans.add(label="email", definition="email")
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    await plans.store.sync_definitions([Definition("report", schema=schema)])
    for _ in range(2):
        await plans.move(HOUR)
        assert await plans.fire() == 1
    first, second = await plans.decisions(trigger)
    assert (first.kind, first.reason) == (DecisionKind.ERROR, Reason.INVALID_PAYLOAD)
    assert '"to" is a required property' in first.why
    assert second.fire_at == NOON + 2 * HOUR
    assert await plans.kinds(other) == [DecisionKind.FIRED] * 2


async def test_a_tenant_that_strict_tenants_refuse_is_an_error(plans: Plans, store: Store) -> None:
    trigger = await store.triggers(tenant_id("nobody")).add(rule())
    await store.set_strict_tenants(True)
    await plans.move(HOUR)
    assert await plans.fire() == 0
    (decision,) = await plans.decisions(trigger)
    assert (decision.kind, decision.reason) == (DecisionKind.ERROR, Reason.UNKNOWN_TENANT)


async def test_strict_tenants_refuse_a_trigger_of_an_unknown_one(plans: Plans, store: Store) -> None:
    await store.set_strict_tenants(True)
    stranger = store.triggers(tenant_id("nobody"))
    with pytest.raises(UnknownTenant, match=r"'nobody' was never registered.*Nothing was saved"):
        await stranger.add(rule())
    assert await stranger.list(10) == []
    await store.add_tenant(ACME)
    assert (await plans.add()).tenant == ACME
    assert (await store.triggers(ALL).add(rule())).tenant is ALL


# ------------------------------------------------------------------------------------------------------ many at once


async def test_each_fire_is_made_once_by_many_schedulers(plans: Plans, stores: list[Store]) -> None:
    for number in range(60):
        await plans.add(label=f"number {number}", schedule=Every("10m"), catch_up="all", payload={"n": number})
    await plans.move(HOUR)
    fired = await asyncio.gather(*(plans.fire(store) for store in stores))
    while left := await plans.fire():
        fired.append(left)
    assert sum(fired) == 360
    jobs = await plans.jobs()
    assert len({(job.payload["n"], job.scheduled_for) for job in jobs}) == len(jobs) == 360

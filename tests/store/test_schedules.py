"""Schedules: each fire time makes one job, and what was missed is caught up by the trigger's policy."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import eventually
from tests.store.bench import Bench, EngineUnderTest, all_jobs
from tests.store.wake_listener import asleep, listening
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.engine import MovableClock
from leasehold.errors import UnknownTenant
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision, DecisionKind, Reason
from leasehold.model.definition import Definition
from leasehold.model.job import JobRecord, Source, TenantId, tenant_id
from leasehold.model.limits import Pause
from leasehold.model.schedule import Every, Schedule
from leasehold.model.trigger import ALL, NewTrigger, Trigger
from leasehold.store import Filter, NextFire, Store, Triggers, Wake

NOON = datetime(2027, 3, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = Cron("0 * * * *")
ONLY_SCHEDULED = Filter(source=Source.SCHEDULE)


@pytest.fixture(autouse=True)
def with_schedules(store: Store) -> None:
    if not store.abilities.schedules:
        pytest.skip("this engine fires no schedules")


@pytest.fixture(autouse=True)
async def noon(clock: MovableClock, bystanders: None) -> None:
    """The clock stands still at noon, and is moved by the test."""
    await clock.freeze(NOON)


class Plans:
    """One tenant's schedules, and what became of them."""

    def __init__(self, engine: EngineUnderTest) -> None:
        self.store = engine.store
        self.triggers: Triggers = engine.store.triggers(ACME)
        self.move = engine.move_clock

    async def add(self, schedule: Schedule = HOURLY, **fields: Any) -> Trigger:
        return await self.triggers.add(rule(schedule, **fields))

    async def fire(self, store: Store | None = None) -> int:
        """Fires like a scheduler does: again while there may be more."""
        fired = 0
        while True:
            done = await (store or self.store).schedules.fire_due()
            fired += done.fired
            if not done.more:
                return fired

    async def jobs(self, tenant: TenantId = ACME) -> list[JobRecord]:
        """Jobs of schedules, the oldest fire first."""
        found = await all_jobs(self.store.tenant(tenant), ONLY_SCHEDULED)
        return sorted(found, key=lambda job: job.scheduled_for)

    async def fired_at(self, tenant: TenantId = ACME) -> list[datetime]:
        return [job.scheduled_for for job in await self.jobs(tenant)]

    async def decisions(self, trigger: Trigger) -> list[Decision]:
        """The oldest first."""
        return list(reversed(await self.store.triggers(trigger.tenant).decisions(trigger.id, 1000)))

    async def kinds(self, trigger: Trigger) -> list[DecisionKind]:
        return [decision.kind for decision in await self.decisions(trigger)]


async def is_true(holds: bool) -> bool:
    return holds


def rule(schedule: Schedule = HOURLY, **fields: Any) -> NewTrigger:
    return NewTrigger(**{"label": "hourly", "definition": "report", "schedule": schedule, **fields})


def hours(*numbers: float) -> list[datetime]:
    return [NOON + number * HOUR for number in numbers]


@pytest.fixture
def plans(engine: EngineUnderTest) -> Plans:
    return Plans(engine)


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


async def test_a_sleeping_worker_is_woken_for_a_fire(bench: Bench, plans: Plans) -> None:
    if not bench.store.abilities.wakes:
        pytest.skip("this engine wakes no worker")
    await plans.add()
    async with asleep(bench.store, await bench.join()) as listener:
        await plans.move(HOUR)
        await plans.fire()
        assert await listener.next() is Wake.WORK
    assert len(await bench.claim()) == 1


async def test_listeners_hear_when_schedules_fire(bench: Bench, plans: Plans) -> None:
    if not bench.store.abilities.wakes:
        pytest.skip("this engine wakes no worker")
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


# ------------------------------------------------------------------------------------------------------- turned off


async def test_a_paused_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add()
    await plans.triggers.pause(trigger.id, Pause("holidays"))
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.kinds(trigger) == []


async def test_a_resumed_schedule_catches_up_by_its_policy(plans: Plans) -> None:
    trigger = await plans.add(catch_up="latest")
    await plans.triggers.pause(trigger.id, Pause("holidays"))
    await plans.move(3 * HOUR)
    await plans.triggers.pause(trigger.id, None)
    assert await plans.fire() == 1
    assert await plans.fired_at() == hours(3)


async def test_fires_missed_by_a_pause_say_so(plans: Plans) -> None:
    resumed = await plans.add(label="resumed")
    ended = await plans.add(label="ended")
    await plans.triggers.pause(resumed.id, Pause("holidays"))
    await plans.triggers.pause(ended.id, Pause("holidays", until=NOON + 3 * HOUR))
    await plans.move(3 * HOUR)
    await plans.triggers.pause(resumed.id, None)
    assert await plans.fire() == 2
    for trigger in (resumed, ended):
        missed, _ = await plans.decisions(trigger)
        assert (missed.reason, missed.why) == (Reason.PAUSED, "2 fires were missed while the trigger was paused")
        after = await plans.triggers.get(trigger.id)
        assert after is not None
        assert after.pause is None


async def test_a_pause_ends_by_itself(plans: Plans) -> None:
    trigger = await plans.add(catch_up="skip")
    await plans.triggers.pause(trigger.id, Pause("holidays", until=NOON + 150 * MINUTE))
    await plans.move(2 * HOUR)
    assert await plans.fire() == 0
    await plans.move(30 * MINUTE)
    assert await plans.fire() == 0
    await plans.move(30 * MINUTE)
    assert await plans.fire() == 1
    assert await plans.fired_at() == hours(3)
    current = await plans.triggers.get(trigger.id)
    assert current is not None
    assert current.pause is None


async def test_a_resume_during_an_edit_is_kept(plans: Plans) -> None:
    trigger = await plans.add()
    seen = await plans.triggers.pause(trigger.id, Pause("holidays"))
    assert seen is not None
    await plans.triggers.pause(trigger.id, None)
    await plans.triggers.change(seen, rule(Every("30m")))
    await plans.move(HOUR / 2)
    assert await plans.fire() == 1


@pytest.mark.parametrize("until", [None, NOON + 3 * HOUR])
async def test_a_pause_during_an_edit_is_kept(plans: Plans, until: datetime | None) -> None:
    seen = await plans.add()
    await plans.triggers.pause(seen.id, Pause("holidays", until))
    changed = await plans.triggers.change(seen, rule(Every("30m")))
    await plans.move(HOUR)
    assert await plans.fire() == 0
    assert changed is not None
    assert (changed.pause, changed.next_at) == (Pause("holidays", until), until)


async def test_a_disabled_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add(enabled=False)
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.kinds(trigger) == []


async def test_an_enabled_schedule_begins_at_that_moment(plans: Plans) -> None:
    trigger = await plans.add(enabled=False, catch_up="all")
    await plans.move(10 * HOUR)
    await plans.triggers.change(trigger, rule(catch_up="all"))
    assert await plans.fire() == 0
    await plans.move(HOUR)
    await plans.fire()
    assert await plans.fired_at() == hours(11)


async def test_a_deleted_schedule_does_not_fire(plans: Plans) -> None:
    trigger = await plans.add()
    assert await plans.triggers.delete(trigger.id)
    await plans.move(10 * HOUR)
    assert await plans.fire() == 0
    assert await plans.triggers.get(trigger.id) is None
    assert not await plans.triggers.delete(trigger.id)


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

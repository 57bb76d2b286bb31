"""Clock changes through the store: the cursor that is kept between two fires loses nothing and doubles nothing."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.store.bench import EngineUnderTest, all_jobs
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.engine import MovableClock
from leasehold.model.cron import Cron
from leasehold.model.job import Source
from leasehold.model.schedule import CatchUp, fires_between
from leasehold.model.trigger import NewTrigger
from leasehold.store import Filter

pytestmark = pytest.mark.abilities("schedules")

# One day before a gap or a fold; the days are past ones, which a new tzdata does not change.
CHANGES = [
    ("America/New_York", datetime(2025, 3, 8, 12), "a gap"),
    ("America/New_York", datetime(2025, 11, 1, 12), "a fold"),
    ("Europe/Berlin", datetime(2025, 3, 29, 6), "a gap"),
    ("Europe/Berlin", datetime(2025, 10, 25, 6), "a fold"),
    ("Australia/Lord_Howe", datetime(2025, 10, 4, 4), "a gap of half an hour"),
    ("Australia/Lord_Howe", datetime(2025, 4, 5, 4), "a fold of half an hour"),
    ("Africa/Casablanca", datetime(2025, 2, 22, 12), "a fold"),
    ("Africa/Casablanca", datetime(2025, 4, 5, 12), "a gap"),
    ("America/Sao_Paulo", datetime(2018, 11, 3, 12), "a gap at midnight"),
    ("America/Sao_Paulo", datetime(2018, 2, 17, 12), "a fold at midnight"),
    ("Pacific/Kiritimati", datetime(1994, 12, 30, 20), "a day that is skipped"),
]
CRONS = ("30 2 * * *", "0 0,1,2,3 * * *", "30 0 * * *", "*/30 * * * *", "15 */2 * * *")


@pytest.fixture(autouse=True)
async def real_time_afterwards(clock: MovableClock, bystanders: None) -> AsyncIterator[None]:
    """The bystanders' jobs are due by the real clock."""
    yield
    await clock.freeze(None)


@pytest.mark.parametrize(("zone", "begin", "change"), CHANGES, ids=[f"{zone}, {what}" for zone, _, what in CHANGES])
async def test_fires_around_a_clock_change_are_those_of_the_rules(
    engine: EngineUnderTest, clock: MovableClock, zone: str, begin: datetime, change: str
) -> None:
    """A scheduler looks every four hours, for two days; the rules know the same days in one piece."""
    start = begin.replace(tzinfo=UTC)
    await clock.freeze(start)
    for cron in CRONS:
        rule = NewTrigger(
            label=cron, definition="report", schedule=Cron(cron, zone), payload={"cron": cron}, catch_up=CatchUp.ALL
        )
        await engine.store.triggers(ACME).add(rule)
    for _ in range(12):
        await clock.move(4 * HOUR)
        while (await engine.store.schedules.fire_due()).more:
            continue
    jobs = await all_jobs(engine.store.tenant(ACME), Filter(source=Source.SCHEDULE))
    for cron in CRONS:
        fired = sorted(job.scheduled_for for job in jobs if job.payload == {"cron": cron})
        assert fired == fires_between(Cron(cron, zone), start, start + 2 * DAY, 1000), f"{cron} over {change}"


async def test_a_fixed_time_runs_once_on_the_days_of_a_change(engine: EngineUnderTest, clock: MovableClock) -> None:
    """New York: 02:30 does not exist on 9 March 2025, and 01:30 occurs twice on 2 November 2025."""
    expected = {
        "30 2 * * *": (datetime(2025, 3, 8, 12, tzinfo=UTC), datetime(2025, 3, 9, 7, tzinfo=UTC)),
        "30 1 * * *": (datetime(2025, 11, 1, 12, tzinfo=UTC), datetime(2025, 11, 2, 5, 30, tzinfo=UTC)),
    }
    for cron, (start, fire) in expected.items():
        await clock.freeze(start)
        schedule = Cron(cron, "America/New_York")
        trigger = await engine.store.triggers(ACME).add(
            NewTrigger(label=cron, definition="report", schedule=schedule)
        )
        await clock.move(timedelta(hours=20))
        await engine.store.schedules.fire_due()
        decisions = await engine.store.triggers(ACME).decisions(trigger.id, 10)
        assert [decision.fire_at for decision in decisions] == [fire]
        await engine.store.triggers(ACME).delete(trigger.id)

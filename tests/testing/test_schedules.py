"""Schedules and events in a user's test: a drain saves them, and fires what the moved clock makes due."""

from datetime import UTC, datetime, timedelta

import pytest

from leasehold import Job, Leasehold
from leasehold.testing import QueueTester

app = Leasehold()


@app.schedule("0 2 * * *", tenant="acme")
@app.job
def report_usage(job: Job) -> None:
    app.tenant(job.tenant).emit("usage.reported", {"of": str(job.queued_at.date())})


@app.on("usage.reported", tenant="acme", payload={"of": "{{event.of}}"})
@app.job
def send_report(job: Job, of: str) -> str:
    return of


@pytest.fixture
def leasehold_app() -> Leasehold:
    return app


def test_the_first_drain_saves_schedules_and_fires_none(leasehold: QueueTester) -> None:
    leasehold.freeze("2027-03-13T12:00Z")
    assert leasehold.drain() == 0
    (schedule, _) = sorted(app.tenant("acme").triggers.list(), key=lambda trigger: trigger.rule.label)
    assert schedule.next_at == datetime(2027, 3, 14, 2, tzinfo=UTC)


def test_a_drain_fires_schedules_that_are_due(leasehold: QueueTester) -> None:
    leasehold.freeze("2027-03-13T12:00Z")
    leasehold.drain()
    leasehold.clock.advance(timedelta(hours=13))
    assert leasehold.drain() == 0
    leasehold.clock.advance(timedelta(hours=1))
    assert leasehold.drain() == 2
    assert leasehold.jobs(send_report)[0].result == "2027-03-14"


def test_a_drain_that_advances_does_not_wait_for_schedules(leasehold: QueueTester) -> None:
    leasehold.freeze("2027-03-13T12:00Z")
    assert leasehold.drain(advance=True) == 0
    assert leasehold.clock.now() == datetime(2027, 3, 13, 12, tzinfo=UTC)

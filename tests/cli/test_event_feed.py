"""Which changes of jobs are shown to people who watch `leasehold dev`."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.cli.dev_samples import ACME, FAILED, JOB, NOON, STARTED, shown

from leasehold.cli.dev_events import MOST_TENANTS, REMEMBERED, DevEvent, EventFeed, JobQueued
from leasehold.model.job import JobId, JobRecord, Source, TenantId, WorkerId
from leasehold.model.status import DisplayState, Status
from leasehold.telemetry import (
    JobStarted,
    WorkerJoined,
)


def record(number: int = 1, **fields: Any) -> JobRecord:
    defaults: dict[str, Any] = dict.fromkeys(JobRecord.__dataclass_fields__)
    defaults |= {
        "id": JobId(f"{JOB[:-8]}{number:08d}"),
        "tenant": ACME,
        "definition": "sync",
        "status": Status.QUEUED,
        "due": True,
        "attempt": 0,
        "free_attempts": 0,
        "scheduled_for": NOON,
        "queued_at": NOON,
        "source": Source.MANUAL,
    }
    return JobRecord(**defaults | fields)


def test_a_job_that_is_seen_is_news_once() -> None:
    feed = EventFeed()
    (queued,) = feed.read_jobs([record()])
    assert isinstance(queued, JobQueued)
    assert (queued.job, queued.state) == (record().id, DisplayState.READY)
    assert list(feed.read_jobs([record()])) == []


def test_the_oldest_is_told_of_first() -> None:
    told = EventFeed().read_jobs([record(3), record(2), record(1)])
    assert [queued.job for queued in told if isinstance(queued, JobQueued)] == [record(n).id for n in (1, 2, 3)]


def test_what_was_there_before_is_no_news() -> None:
    feed = EventFeed()
    feed.remember([record()])
    assert list(feed.read_jobs([record()])) == []


def test_jobs_of_one_id_and_two_tenants_are_two() -> None:
    assert len(list(EventFeed().read_jobs([record(), record(tenant=TenantId("globex"))]))) == 2


def test_a_job_that_was_started_before_it_was_seen_is_announced_first() -> None:
    feed = EventFeed()
    assert [event.event for event in feed.read_event(STARTED)] == ["job.queued", "job.started"]
    assert list(feed.read_jobs([record(id=JOB)])) == []


def test_a_job_seen_before_its_start_is_announced_once() -> None:
    feed = EventFeed()
    list(feed.read_jobs([record(id=JOB)]))
    assert list(feed.read_event(STARTED)) == [STARTED]


def test_a_later_attempt_is_not_announced() -> None:
    again = replace(STARTED, attempt=2, waited=None)
    assert list(EventFeed().read_event(again)) == [again]


def test_a_job_that_is_not_due_is_scheduled() -> None:
    later = NOON + timedelta(minutes=5)
    (queued,) = EventFeed().read_jobs([record(due=False, scheduled_for=later)])
    assert isinstance(queued, JobQueued)
    assert (queued.state, queued.due_in) == (DisplayState.SCHEDULED, 300)


def test_a_scheduled_job_has_waited_since_it_was_due() -> None:
    feed = EventFeed()
    list(feed.read_jobs([record(id=JOB, due=False, scheduled_for=NOON + timedelta(seconds=60))]))
    (started,) = feed.read_event(replace(STARTED, waited=60.25))
    assert isinstance(started, JobStarted)
    assert started.waited == 0.25


def test_a_job_that_is_over_when_it_is_seen_was_queued_once() -> None:
    (queued,) = EventFeed().read_jobs([record(status=Status.SUCCEEDED)])
    assert isinstance(queued, JobQueued)
    assert queued.state is DisplayState.READY


OTHER = WorkerId("another worker")
MINUTE = timedelta(minutes=1)


def twice(feed: EventFeed, job: JobRecord) -> list[DevEvent]:
    """A change is told when it was seen twice: one of our workers may be about to tell it."""
    assert list(feed.read_jobs([job])) == []
    return list(feed.read_jobs([job]))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"status": Status.RUNNING}, "◐ 00000001 sync acme  started on worker a worker"),
        ({"status": Status.RUNNING, "attempt": 2}, "◐ 00000001 sync acme  started on worker a worker (try 2/5)"),
        (
            {"status": Status.SUCCEEDED, "started_at": NOON, "finished_at": NOON + timedelta(seconds=2)},
            "✓ 00000001 sync acme  2.0 s on worker a worker",
        ),
        ({"status": Status.CANCELED, "worker": None, "attempt": 0}, "⊘ 00000001 sync acme  canceled"),
        (
            {"status": Status.DEAD_LETTER, "last_error": "no row", "last_error_code": "KeyError", "attempt": 5},
            "✕ 00000001 sync acme  dead letter: KeyError: no row (try 5/5) on worker a worker",
        ),
        (
            {"worker": None, "last_error": "no row", "last_error_code": "KeyError"},
            "▷ 00000001 sync acme  waits again: KeyError: no row (try 1/5)",
        ),
    ],
    ids=["started", "retried", "succeeded", "canceled", "dead letter", "waits again"],
)
def test_a_change_by_another_worker_is_one_line(fields: dict[str, Any], line: str) -> None:
    feed = EventFeed()
    list(feed.read_jobs([record()]))
    defaults: dict[str, Any] = {"attempt": 1, "max_attempts": 5, "worker": WorkerId("a worker")}
    (changed,) = twice(feed, record(**defaults | fields))
    assert shown(changed) == line


def test_a_change_by_another_worker_is_told_once() -> None:
    feed, running = EventFeed(), record(status=Status.RUNNING, attempt=1, worker=OTHER)
    list(feed.read_jobs([record()]))
    assert [event.event for event in twice(feed, running)] == ["job.changed"]
    assert list(feed.read_jobs([running])) == []


def test_what_our_own_worker_does_is_left_to_its_events() -> None:
    feed, ours = EventFeed(), WorkerId("ours")
    list(feed.read_event(WorkerJoined(at=NOON, worker=ours, pid=1, slots=1, definitions=("sync",), listens=True)))
    list(feed.read_jobs([record(id=JOB)]))
    assert twice(feed, record(id=JOB, status=Status.SUCCEEDED, attempt=1, worker=ours)) == []


def test_what_our_own_worker_has_told_is_not_told_again() -> None:
    feed = EventFeed()
    list(feed.read_event(STARTED))
    list(feed.read_event(FAILED))
    assert twice(feed, record(id=JOB, attempt=1)) == []


def test_jobs_are_looked_for_until_they_have_ended() -> None:
    feed = EventFeed()
    list(feed.read_jobs([record(1), record(2), record(3, due=False, scheduled_for=NOON + MINUTE)]))
    assert feed.open_jobs(NOON, besides=[record(2)], most=10) == {ACME: [record(1).id]}
    assert twice(feed, record(1, status=Status.CANCELED)) != []
    feed.forget(ACME, [record(2).id])
    assert feed.open_jobs(NOON + MINUTE, besides=[], most=10) == {ACME: [record(3).id]}


def test_of_many_tenants_some_are_looked_at_in_each_turn() -> None:
    feed, tenants = EventFeed(), [TenantId(f"tenant{number}") for number in range(2 * MOST_TENANTS)]
    list(feed.read_jobs([record(tenant=tenant) for tenant in reversed(tenants)]))
    turns = [list(feed.open_jobs(NOON, besides=[], most=200)) for _ in range(2)]
    assert turns == [tenants[:MOST_TENANTS], tenants[MOST_TENANTS:]]


def test_of_many_open_jobs_all_are_looked_for_in_turn() -> None:
    feed = EventFeed()
    list(feed.read_jobs([record(3), record(2), record(1)]))
    turns = [feed.open_jobs(NOON, besides=[], most=2)[ACME] for _ in range(3)]
    assert turns == [[record(n).id for n in turn] for turn in ((1, 2), (3, 1), (2, 3))]


def test_a_job_that_stays_in_sight_is_not_announced_again() -> None:
    feed = EventFeed()
    list(feed.read_jobs([record(0)]))
    feed.remember(record(number) for number in range(1, REMEMBERED))
    assert list(feed.read_jobs([record(0)])) == []
    feed.remember([record(REMEMBERED)])
    assert list(feed.read_jobs([record(0)])) == []


def test_its_memory_is_bounded() -> None:
    feed = EventFeed()
    feed.remember(record(number) for number in range(REMEMBERED + 100))
    assert len(list(feed.read_jobs([record(0)]))) == 1
    assert list(feed.read_jobs([record(REMEMBERED)])) == []

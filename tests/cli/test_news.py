"""Which changes of jobs are news to people who watch `leasehold dev`."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.cli.dev_samples import ACME, FAILED, JOB, NOON, STARTED, shown

from leasehold.cli.news import MOST_TENANTS, REMEMBERED, Feed, JobQueued, News
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
    feed = Feed()
    (queued,) = feed.seen([record()])
    assert isinstance(queued, JobQueued)
    assert (queued.job, queued.state) == (record().id, DisplayState.READY)
    assert list(feed.seen([record()])) == []


def test_the_oldest_is_told_of_first() -> None:
    told = Feed().seen([record(3), record(2), record(1)])
    assert [queued.job for queued in told if isinstance(queued, JobQueued)] == [record(n).id for n in (1, 2, 3)]


def test_what_was_there_before_is_no_news() -> None:
    feed = Feed()
    feed.know([record()])
    assert list(feed.seen([record()])) == []


def test_jobs_of_one_id_and_two_tenants_are_two() -> None:
    assert len(list(Feed().seen([record(), record(tenant=TenantId("globex"))]))) == 2


def test_a_job_that_was_started_before_it_was_seen_is_announced_first() -> None:
    feed = Feed()
    assert [news.event for news in feed.heard(STARTED)] == ["job.queued", "job.started"]
    assert list(feed.seen([record(id=JOB)])) == []


def test_a_job_seen_before_its_start_is_announced_once() -> None:
    feed = Feed()
    list(feed.seen([record(id=JOB)]))
    assert list(feed.heard(STARTED)) == [STARTED]


def test_a_later_attempt_is_not_announced() -> None:
    again = replace(STARTED, attempt=2, waited=None)
    assert list(Feed().heard(again)) == [again]


def test_a_job_that_is_not_due_is_scheduled() -> None:
    later = NOON + timedelta(minutes=5)
    (queued,) = Feed().seen([record(due=False, scheduled_for=later)])
    assert isinstance(queued, JobQueued)
    assert (queued.state, queued.due_in) == (DisplayState.SCHEDULED, 300)


def test_a_scheduled_job_has_waited_since_it_was_due() -> None:
    feed = Feed()
    list(feed.seen([record(id=JOB, due=False, scheduled_for=NOON + timedelta(seconds=60))]))
    (started,) = feed.heard(replace(STARTED, waited=60.25))
    assert isinstance(started, JobStarted)
    assert started.waited == 0.25


def test_a_job_that_is_over_when_it_is_seen_was_queued_once() -> None:
    (queued,) = Feed().seen([record(status=Status.SUCCEEDED)])
    assert isinstance(queued, JobQueued)
    assert queued.state is DisplayState.READY


OTHER = WorkerId("another worker")
MINUTE = timedelta(minutes=1)


def twice(feed: Feed, job: JobRecord) -> list[News]:
    """A change is told when it was seen twice: one of our workers may be about to tell it."""
    assert list(feed.seen([job])) == []
    return list(feed.seen([job]))


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
    feed = Feed()
    list(feed.seen([record()]))
    defaults: dict[str, Any] = {"attempt": 1, "max_attempts": 5, "worker": WorkerId("a worker")}
    (changed,) = twice(feed, record(**defaults | fields))
    assert shown(changed) == line


def test_a_change_by_another_worker_is_told_once() -> None:
    feed, running = Feed(), record(status=Status.RUNNING, attempt=1, worker=OTHER)
    list(feed.seen([record()]))
    assert [news.event for news in twice(feed, running)] == ["job.changed"]
    assert list(feed.seen([running])) == []


def test_what_our_own_worker_does_is_left_to_its_events() -> None:
    feed, ours = Feed(), WorkerId("ours")
    list(feed.heard(WorkerJoined(at=NOON, worker=ours, pid=1, slots=1, definitions=("sync",), listens=True)))
    list(feed.seen([record(id=JOB)]))
    assert twice(feed, record(id=JOB, status=Status.SUCCEEDED, attempt=1, worker=ours)) == []


def test_what_our_own_worker_has_told_is_not_told_again() -> None:
    feed = Feed()
    list(feed.heard(STARTED))
    list(feed.heard(FAILED))
    assert twice(feed, record(id=JOB, attempt=1)) == []


def test_jobs_are_looked_for_until_they_have_ended() -> None:
    feed = Feed()
    list(feed.seen([record(1), record(2), record(3, due=False, scheduled_for=NOON + MINUTE)]))
    assert feed.open_jobs(NOON, besides=[record(2)], most=10) == {ACME: [record(1).id]}
    assert twice(feed, record(1, status=Status.CANCELED)) != []
    feed.gone(ACME, [record(2).id])
    assert feed.open_jobs(NOON + MINUTE, besides=[], most=10) == {ACME: [record(3).id]}


def test_of_many_tenants_some_are_looked_at_in_each_turn() -> None:
    feed, tenants = Feed(), [TenantId(f"tenant{number}") for number in range(2 * MOST_TENANTS)]
    list(feed.seen([record(tenant=tenant) for tenant in reversed(tenants)]))
    turns = [list(feed.open_jobs(NOON, besides=[], most=200)) for _ in range(2)]
    assert turns == [tenants[:MOST_TENANTS], tenants[MOST_TENANTS:]]


def test_of_many_open_jobs_all_are_looked_for_in_turn() -> None:
    feed = Feed()
    list(feed.seen([record(3), record(2), record(1)]))
    turns = [feed.open_jobs(NOON, besides=[], most=2)[ACME] for _ in range(3)]
    assert turns == [[record(n).id for n in turn] for turn in ((1, 2), (3, 1), (2, 3))]


def test_a_job_that_stays_in_sight_is_not_announced_again() -> None:
    feed = Feed()
    list(feed.seen([record(0)]))
    feed.know(record(number) for number in range(1, REMEMBERED))
    assert list(feed.seen([record(0)])) == []
    feed.know([record(REMEMBERED)])
    assert list(feed.seen([record(0)])) == []


def test_its_memory_is_bounded() -> None:
    feed = Feed()
    feed.know(record(number) for number in range(REMEMBERED + 100))
    assert len(list(feed.seen([record(0)]))) == 1
    assert list(feed.seen([record(REMEMBERED)])) == []

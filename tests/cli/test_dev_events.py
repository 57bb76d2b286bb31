"""The lines of `leasehold dev` for each event, without any process."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasehold.cli.dev_events import (
    MOST_TENANTS,
    REMEMBERED,
    DevEvent,
    DevMessage,
    EventFeed,
    JobQueued,
    Topic,
    WorkerKilled,
)
from leasehold.cli.dev_lines import Lines, logfmt
from leasehold.model.job import JobId, JobRecord, LineKind, Source, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.telemetry import (
    DefinitionChanged,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    JobStarted,
    WorkerJoined,
    WorkerLeft,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
JOB = JobId("0195abcd-0000-7000-8000-00006f46a1d8")
ACME = TenantId("acme")
ABOUT: dict[str, Any] = {
    "at": NOON,
    "worker": WorkerId("a worker"),
    "tenant": ACME,
    "job": JOB,
    "definition": "sync",
    "attempt": 1,
    "tries": 1,
    "max_attempts": 5,
}
STARTED = JobStarted(**ABOUT, queued_at=NOON, waited=0.009)
ENDED = JobEnded(
    **ABOUT,
    status=Status.SUCCEEDED,
    attempt_status=AttemptStatus.SUCCEEDED,
    seconds=0.8,
    error=None,
    error_code=None,
    retry_in=None,
)
FAILED = replace(
    ENDED,
    status=Status.QUEUED,
    attempt_status=AttemptStatus.FAILED,
    error="no row",
    error_code="KeyError",
    retry_in=30,
)
QUEUED = JobQueued(
    at=NOON,
    tenant=ACME,
    job=JOB,
    definition="sync",
    state=DisplayState.READY,
    due_in=0,
    source=Source.MANUAL,
    created_by=None,
)
CHANGED = DefinitionChanged(
    at=NOON,
    worker=WorkerId("a worker"),
    definition="sync",
    version=2,
    created=False,
    text="sync: now version 2 (timeout: 0:10:00 → 0:20:00)",
)
RECLAIMED = JobReclaimed(
    **ABOUT, by=WorkerId("another"), status=Status.QUEUED, error="", error_code="lease_lost", retry_in=2
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


def shown(event: DevEvent, width: int = 100) -> str:
    """Without its time of day, which depends on where we are."""
    line = Lines(width).of(event)
    assert line is not None
    assert re.match(r"\d\d:\d\d:\d\d ", line.plain)
    return line.plain[9:]


# Lines for people


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (QUEUED, "▷ 6f46a1d8 sync acme  queued"),
        (replace(QUEUED, created_by="ann"), "▷ 6f46a1d8 sync acme  queued by ann"),
        (replace(QUEUED, source=Source.SCHEDULE), "▷ 6f46a1d8 sync acme  queued by schedule"),
        (replace(QUEUED, state=DisplayState.SCHEDULED, due_in=300), "◷ 6f46a1d8 sync acme  scheduled, in 5m"),
        (replace(QUEUED, state=DisplayState.BLOCKED), "⏸ 6f46a1d8 sync acme  waits for other jobs"),
        (STARTED, "◐ 6f46a1d8 sync acme  started after 9 ms"),
        (replace(STARTED, tries=2, waited=None), "◐ 6f46a1d8 sync acme  started (try 2/5)"),
        (ENDED, "✓ 6f46a1d8 sync acme  800 ms"),
        (FAILED, "✕ 6f46a1d8 sync acme  KeyError: no row (try 1/5, again in 30 s)"),
        (
            replace(FAILED, status=Status.FAILED, error_code="Fail", retry_in=None),
            "✕ 6f46a1d8 sync acme  failed: no row",
        ),
        (
            replace(FAILED, status=Status.DEAD_LETTER, tries=5, retry_in=None),
            "✕ 6f46a1d8 sync acme  dead letter: KeyError: no row (try 5/5)",
        ),
        (replace(ENDED, status=Status.CANCELED), "⊘ 6f46a1d8 sync acme  canceled"),
        (
            replace(ENDED, status=Status.QUEUED, attempt_status=AttemptStatus.SNOOZED, retry_in=5),
            "◷ 6f46a1d8 sync acme  snoozed, again in 5.0 s",
        ),
        (
            JobGivenBack(**ABOUT),
            "▷ 6f46a1d8 sync acme  given back, its worker stops; no try is used",
        ),
        (
            JobDiscarded(**ABOUT),
            "! 6f46a1d8 sync acme  discarded: its lease was lost, it is somebody else's now (LH-4001)",
        ),
        (
            RECLAIMED,
            "↻ 6f46a1d8 sync acme  reclaimed: its worker died (try 1/5, again in 2.0 s)",
        ),
        (
            replace(RECLAIMED, status=Status.DEAD_LETTER, tries=5, retry_in=None),
            "✕ 6f46a1d8 sync acme  reclaimed: its worker died; dead letter (try 5/5)",
        ),
        (JobLogged(**ABOUT, text="syncing /", kind=LineKind.LOG, progress=None), "│ 6f46a1d8 syncing /"),
        (JobLogged(**ABOUT, text="page 3", kind=LineKind.PROGRESS, progress=0.3), "│ 6f46a1d8  30% page 3"),
        (CHANGED, "≠ sync: now version 2 (timeout: 0:10:00 → 0:20:00)"),
        (WorkerKilled(at=NOON, pid=123, running=2), "☠ killed worker 123 (2 jobs running)"),
        (DevMessage(at=NOON, topic=Topic.CHANGED, text="app.py changed"), "↻ app.py changed"),
    ],
    ids=lambda value: value[13:] if isinstance(value, str) else "",
)
def test_news_is_one_line(event: DevEvent, line: str) -> None:
    assert shown(event) == line


def test_a_failure_says_below_where_it_happened() -> None:
    first, second = shown(replace(FAILED, where="app.py:14 in fetch")).split("\n")
    assert first == shown(FAILED)
    assert second == "           app.py:14 in fetch"


def test_the_checklist_is_aligned() -> None:
    lines = Lines(100)
    steps = [DevMessage(at=NOON, topic=topic, text="…") for topic in (Topic.DATABASE, Topic.MIGRATIONS, Topic.WORKER)]
    assert [str(lines.of(step)) for step in steps] == ["  ✓ database    …", "  ✓ migrations  …", "  ✓ worker      …"]


@pytest.mark.parametrize(
    "event",
    [
        WorkerJoined(at=NOON, worker=WorkerId("w"), pid=1, slots=1, definitions=("sync",), listens=True),
        WorkerLeft(at=NOON, worker=WorkerId("w")),
        replace(CHANGED, created=True, version=1),
    ],
)
def test_joins_and_counted_definitions_are_not_shown_to_people(event: DevEvent) -> None:
    assert Lines(100).of(event) is None


def test_the_time_is_that_of_the_wall() -> None:
    assert str(Lines(100).of(QUEUED)).startswith(f"{NOON.astimezone():%H:%M:%S}")


def test_columns_grow_with_what_they_hold_and_stay_so() -> None:
    lines = Lines(100)
    long = replace(QUEUED, definition="sync_folder", tenant=TenantId("globex"))
    assert [str(lines.of(event))[9:] for event in (QUEUED, long, QUEUED)] == [
        "▷ 6f46a1d8 sync acme  queued",
        "▷ 6f46a1d8 sync_folder globex  queued",
        "▷ 6f46a1d8 sync        acme    queued",
    ]


def test_the_definitions_of_a_worker_make_room_for_themselves() -> None:
    lines = Lines(100)
    lines.of(WorkerJoined(at=NOON, worker=WorkerId("w"), pid=1, slots=1, definitions=("sync_folder",), listens=True))
    assert str(lines.of(QUEUED))[9:] == "▷ 6f46a1d8 sync        acme  queued"


def test_a_long_error_is_cut_and_what_comes_of_it_stays() -> None:
    line = shown(replace(FAILED, error="x" * 500 + "\nand more"), width=110)
    assert len(line) == 110 - 9
    assert line.endswith("x… (try 1/5, again in 30 s)")


def test_in_a_narrow_terminal_an_error_still_says_something() -> None:
    assert "KeyError: " in shown(replace(FAILED, error="x" * 500), width=20)


def test_what_is_said_can_not_move_the_cursor() -> None:
    for event in (
        JobLogged(**ABOUT, text="\x1b[2J", kind=LineKind.LOG, progress=None),
        replace(FAILED, error="\x1b[2J"),
        replace(FAILED, where="\x1b[2J"),
        replace(QUEUED, definition="\x1b[2J"),
        DevMessage(at=NOON, topic=Topic.BROKEN, text="\x1b[2J"),
    ):
        assert "\x1b" not in shown(event)


# Which of it is event


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


# Other workers

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
    feed = Feed()
    feed.know(record(number) for number in range(REMEMBERED + 100))
    assert len(list(feed.seen([record(0)]))) == 1
    assert list(feed.seen([record(REMEMBERED)])) == []


# For machines


def test_logfmt_quotes_what_has_to_be_and_leaves_out_what_is_unknown() -> None:
    line = logfmt(replace(FAILED, error='no "row"\nhere', seconds=None))
    assert line.startswith("at=2026-03-01T12:00:00+00:00 event=job.ended worker=")
    assert r'error="no \"row\"\nhere"' in line
    assert "status=queued" in line
    assert "seconds" not in line


def test_logfmt_is_one_line_for_lists_and_switches_too() -> None:
    joined = WorkerJoined(at=NOON, worker=WorkerId("w"), pid=1, slots=2, definitions=("a", "b"), listens=True)
    assert logfmt(joined).endswith("pid=1 slots=2 definitions=a,b listens=true")

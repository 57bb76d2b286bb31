"""The lines of `leasehold dev` for each event, without any process."""

from dataclasses import replace

import pytest
from tests.cli.dev_samples import ABOUT, ENDED, FAILED, NOON, QUEUED, STARTED, shown

from leasehold.cli.dev_events import DevEvent, DevMessage, Topic, WorkerKilled
from leasehold.cli.dev_lines import Lines, logfmt
from leasehold.model.job import LineKind, Source, TenantId, WorkerId
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.telemetry import (
    DefinitionChanged,
    DefinitionUnavailable,
    JobDiscarded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    WorkerJoined,
    WorkerLeft,
)

CHANGED = DefinitionChanged(
    at=NOON,
    worker=WorkerId("a worker"),
    definition="sync",
    version=2,
    created=False,
    text="sync: now version 2 (timeout: 0:10:00 → 0:20:00)",
)
UNAVAILABLE = DefinitionUnavailable(
    at=NOON, worker=WorkerId("a worker"), definition="sync", why='its program "zoltag" is not on its PATH.'
)
RECLAIMED = JobReclaimed(
    **ABOUT, by=WorkerId("another"), status=Status.QUEUED, error="", error_code="lease_lost", retry_in=2
)


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
        (UNAVAILABLE, '! sync is not served: its program "zoltag" is not on its PATH.'),
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

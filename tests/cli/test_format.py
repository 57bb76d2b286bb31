"""How times, states and errors read."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.job_records import NOON as NOW
from tests.job_records import job_record

from leasehold.cli.format import ago, relative, short, tries
from leasehold.model.duration import span
from leasehold.model.job import JobRecord
from leasehold.model.status import Status
from leasehold.operations.views import error_of, first_line, format_count, printable, why

JOB = job_record()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (-3, "0 ms"),
        (0.009, "9 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (42.4, "42 s"),
        (59.6, "1m"),
        (160, "2m 40s"),
        (3600, "1h"),
        (11100, "3h 5m"),
        (187200, "2d 4h"),
    ],
)
def test_a_span_is_as_exact_as_people_need_it(length: float, words: str) -> None:
    assert span(seconds(length)) == words


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (-5, "just now"),
        (0.4, "just now"),
        (12, "12s ago"),
        (200, "3m ago"),
        (7300, "2h ago"),
        (500_000, "5d ago"),
    ],
)
def test_what_was_is_ago(before: float, words: str) -> None:
    assert ago(NOW - seconds(before), NOW) == words


def test_what_will_be_is_in_so_long() -> None:
    assert relative(NOW + seconds(42), NOW) == "in 42 s"
    assert relative(NOW - seconds(42), NOW) == "42s ago"


def test_a_short_id_is_the_end_since_neighbours_share_the_beginning() -> None:
    assert short(JOB.id) == "099a8057"


def test_counting_knows_one_and_thousands() -> None:
    assert [format_count(number, "job") for number in (0, 1, 2, 3158)] == ["0 jobs", "1 job", "2 jobs", "3,158 jobs"]


def test_tries_leave_out_what_was_forgiven() -> None:
    assert tries(replace(JOB, attempt=4, free_attempts=3)) == "1/5"


def test_an_error_is_its_code_and_its_message_as_far_as_known() -> None:
    assert error_of("TimeoutError", "no answer") == "TimeoutError: no answer"
    assert error_of(None, "no answer") == "no answer"
    assert error_of(None, None) == ""


def test_a_long_message_is_shortened_to_its_first_line() -> None:
    assert first_line("no answer\nTraceback …\n") == "no answer …"
    assert first_line("no answer\n") == "no answer"


def test_control_characters_can_not_reach_the_terminal() -> None:
    assert printable("\x1b]0;title\x07 \x9b2J a\tb\nc\x7f") == "␛]0;title␇ �2J a\tb\nc␡"


FAILED = replace(JOB, attempt=1, last_error="no answer", last_error_code="TimeoutError")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (JOB, "waits for a free slot"),
        (replace(JOB, due=False, scheduled_for=NOW + seconds(42)), "due in 42 s"),
        (
            replace(FAILED, due=False, scheduled_for=NOW + seconds(42)),
            "due in 42 s, after TimeoutError: no answer",
        ),
        (replace(JOB, due=False, attempt=1, scheduled_for=NOW + seconds(42)), "due in 42 s"),
        (replace(FAILED, due=True), "waits for a free slot, after TimeoutError: no answer"),
        (replace(JOB, status=Status.RUNNING, started_at=NOW - seconds(12)), "for 12 s"),
        (
            replace(JOB, status=Status.RUNNING, started_at=NOW - seconds(12), cancel_requested_at=NOW),
            "for 12 s, asked to stop",
        ),
        (
            replace(JOB, status=Status.SUCCEEDED, started_at=NOW - seconds(12), finished_at=NOW - seconds(11.2)),
            "took 800 ms",
        ),
        (replace(FAILED, status=Status.DEAD_LETTER), "TimeoutError: no answer"),
        (replace(JOB, status=Status.CANCELED), ""),
    ],
    ids=lambda value: value.display if isinstance(value, JobRecord) else "",
)
def test_why_answers_what_one_would_ask_next(job: JobRecord, words: str) -> None:
    assert why(job, NOW) == words


def test_why_names_what_holds_a_ready_job_back() -> None:
    assert why(JOB, NOW, ["its tenant is paused: unpaid", "no live worker serves it"]) == (
        "its tenant is paused: unpaid; no live worker serves it"
    )

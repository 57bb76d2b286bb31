"""The verdict on each outcome, with and without tries left."""

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.claims import a_claim

from leasehold.errors import PayloadInvalid
from leasehold.model.backoff import OUTBOX, SMALL_TEAM, Exponential, Steps
from leasehold.model.bounds import LONGEST
from leasehold.model.definition import Definition, OnExhausted
from leasehold.model.job import Claim
from leasehold.model.outcome import (
    SHOWN_ERROR,
    SHOWN_TRACEBACK,
    Canceled,
    LeaseLost,
    Outcome,
    Raised,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    Trace,
    Verdict,
    decide,
)
from leasehold.model.payload import require_json
from leasehold.model.status import AttemptStatus, Status

MINUTE = timedelta(minutes=1)
STEADY = Definition("send_mail", backoff=Steps(10, 20, 30, 40))
ERROR = Raised("ValueError", "no such address")

COSTLY: list[tuple[Outcome, AttemptStatus, str]] = [
    (ERROR, AttemptStatus.FAILED, "ValueError"),
    (TimedOut(MINUTE), AttemptStatus.TIMEOUT, "timeout"),
    (LeaseLost(), AttemptStatus.CRASHED, "lease_lost"),
]
FREE: list[Outcome] = [Snoozed(MINUTE), Released()]


def judge(outcome: Outcome, claim: Claim | None = None) -> Verdict:
    return decide(outcome, claim or a_claim(definition=STEADY), jitter=0)


def next_claim(claim: Claim, verdict: Verdict) -> Claim:
    """Claims a job again after a verdict, as an engine does: the number goes up, the allowance is raised."""
    return replace(claim, attempt=claim.attempt + 1, free_attempts=claim.free_attempts + verdict.free_attempts)


def after_manual_retry(claim: Claim) -> Claim:
    """Retries a job by hand: all attempts so far become free, and the next one has the next number."""
    return replace(claim, attempt=claim.attempt + 1, free_attempts=claim.attempt)


@pytest.mark.parametrize("result", [None, '{"sent":3}'])
def test_a_success_is_written_with_its_result(result: str | None) -> None:
    assert judge(Succeeded(result)) == Verdict(Status.SUCCEEDED, AttemptStatus.SUCCEEDED, result=result)


def test_a_cancel_is_written_without_an_error() -> None:
    assert judge(Canceled()) == Verdict(Status.CANCELED, AttemptStatus.CANCELED)


def test_a_snooze_queues_the_job_again_after_the_delay_it_asked_for() -> None:
    assert judge(Snoozed(MINUTE)) == Verdict(Status.QUEUED, AttemptStatus.SNOOZED, delay=MINUTE, free_attempts=1)


def test_a_job_that_is_given_back_is_due_at_once() -> None:
    assert judge(Released()) == Verdict(Status.QUEUED, AttemptStatus.GIVEN_BACK, delay=timedelta(), free_attempts=1)


def test_a_job_that_must_not_run_has_failed() -> None:
    verdict = judge(Rejected("deadline_passed", "its deadline was an hour ago"))
    assert verdict == Verdict(
        Status.FAILED, AttemptStatus.FAILED, error="its deadline was an hour ago", error_code="deadline_passed"
    )


def test_a_final_error_has_failed_although_attempts_are_left() -> None:
    verdict = judge(
        Raised("NoSuchAccount", "closed", retry_in=MINUTE, final=True), a_claim(attempt=1, max_attempts=5)
    )
    assert verdict == Verdict(Status.FAILED, AttemptStatus.FAILED, error="closed", error_code="NoSuchAccount")


@pytest.mark.parametrize(("outcome", "attempt", "code"), COSTLY)
def test_with_attempts_left_the_job_is_queued_again_with_its_error(
    outcome: Outcome, attempt: AttemptStatus, code: str
) -> None:
    verdict = judge(outcome)
    assert (verdict.status, verdict.attempt, verdict.error_code) == (Status.QUEUED, attempt, code)
    assert verdict.delay == timedelta(seconds=10)
    assert verdict.error


@pytest.mark.parametrize(("outcome", "attempt", "code"), COSTLY)
def test_without_tries_left_the_job_becomes_a_dead_letter(
    outcome: Outcome, attempt: AttemptStatus, code: str
) -> None:
    verdict = judge(outcome, a_claim(attempt=3, max_attempts=3))
    assert (verdict.status, verdict.attempt, verdict.error_code) == (Status.DEAD_LETTER, attempt, code)
    assert verdict.delay == timedelta()
    assert verdict.error


@pytest.mark.parametrize("spelled", [OnExhausted.FAILED, "failed"], ids=["enum", "text"])
@pytest.mark.parametrize(("outcome", "attempt", "code"), COSTLY)
def test_a_definition_can_ask_that_exhausted_jobs_are_failed(
    outcome: Outcome, attempt: AttemptStatus, code: str, spelled: OnExhausted
) -> None:
    definition = Definition("send_mail", on_exhausted=spelled)
    verdict = judge(outcome, a_claim(attempt=3, max_attempts=3, definition=definition))
    assert (verdict.status, verdict.attempt, verdict.error_code) == (Status.FAILED, attempt, code)


def test_a_timeout_says_how_long_the_attempt_was_allowed_to_run() -> None:
    assert judge(TimedOut(timedelta(seconds=90))).error == "ran longer than its timeout of 90 s"


def test_a_crash_names_the_worker_that_was_not_heard_of() -> None:
    error = judge(LeaseLost(), a_claim(worker="host-7:4711")).error
    assert error is not None
    assert "host-7:4711" in error


@pytest.mark.parametrize("outcome", [outcome for outcome, _, _ in COSTLY], ids=repr)
@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_max_attempts_counts_all_executions(outcome: Outcome, max_attempts: int) -> None:
    claim, executions = a_claim(max_attempts=max_attempts), 1
    while (verdict := judge(outcome, claim)).status is Status.QUEUED:
        claim, executions = next_claim(claim, verdict), executions + 1

    assert executions == max_attempts


@pytest.mark.parametrize("outcome", [outcome for outcome, _, _ in COSTLY], ids=repr)
def test_error_timeout_and_crash_use_one_attempt_up(outcome: Outcome) -> None:
    assert judge(outcome).free_attempts == 0


@pytest.mark.parametrize("outcome", FREE, ids=repr)
def test_a_snooze_and_a_hand_back_cost_no_attempt(outcome: Outcome) -> None:
    claim = a_claim(attempt=2, max_attempts=2)
    following = next_claim(claim, judge(outcome, claim))

    assert following.tries == claim.tries


@pytest.mark.parametrize("outcome", FREE, ids=repr)
def test_a_snooze_or_hand_back_in_the_last_try_queues_the_job_again(outcome: Outcome) -> None:
    assert judge(outcome, a_claim(attempt=3, max_attempts=3)).status is Status.QUEUED


@pytest.mark.parametrize("outcome", FREE, ids=repr)
def test_a_free_attempt_raises_the_allowance_and_keeps_the_number(outcome: Outcome) -> None:
    claim = a_claim(attempt=4, free_attempts=1)
    following = next_claim(claim, judge(outcome, claim))

    assert (following.attempt, following.free_attempts) == (5, 2)


def test_an_error_waits_as_long_as_it_chose_itself() -> None:
    assert judge(Raised("RateLimited", "slow down", retry_in=timedelta(seconds=77))).delay == timedelta(seconds=77)


def test_an_error_may_choose_to_be_retried_at_once() -> None:
    assert judge(Raised("Conflict", "again", retry_in=timedelta())).delay == timedelta()


def test_a_chosen_delay_grants_no_further_attempt() -> None:
    verdict = judge(Raised("RateLimited", "slow down", retry_in=MINUTE), a_claim(attempt=3, max_attempts=3))
    assert verdict.status is Status.DEAD_LETTER


@pytest.mark.parametrize(
    ("asked", "written"),
    [(timedelta(seconds=-5), timedelta()), (timedelta.min, timedelta()), (timedelta.max, LONGEST)],
    ids=["a moment ago", "before all dates", "beyond all dates"],
)
@pytest.mark.parametrize("by", ["a snooze", "an error"])
def test_a_delay_beyond_all_dates_is_bounded(by: str, asked: timedelta, written: timedelta) -> None:
    outcome = Snoozed(asked) if by == "a snooze" else Raised("E", "e", retry_in=asked)
    assert judge(outcome).delay == written


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 30), (2, 300)])
def test_the_backoff_is_asked_by_execution(attempt: int, seconds: int) -> None:
    definition = Definition("send_mail", backoff=OUTBOX.backoff)
    claim = a_claim(attempt=attempt, max_attempts=OUTBOX.max_attempts, definition=definition)

    assert judge(ERROR, claim).delay == timedelta(seconds=seconds)


def test_snoozes_do_not_lengthen_the_backoff() -> None:
    claim = a_claim(definition=Definition("poll", backoff=SMALL_TEAM.backoff))
    for _ in range(1000):
        claim = next_claim(claim, judge(Snoozed(MINUTE), claim))

    assert claim.attempt == 1001
    assert judge(ERROR, claim).delay == timedelta(seconds=1)


def test_a_manual_retry_starts_again_with_the_first_delay() -> None:
    exhausted = a_claim(attempt=5, max_attempts=5, definition=STEADY)
    assert judge(ERROR, exhausted).status is Status.DEAD_LETTER

    assert judge(ERROR, after_manual_retry(exhausted)).delay == timedelta(seconds=10)


def test_a_manual_retry_has_a_fresh_allowance_under_higher_numbers() -> None:
    claim, numbers = after_manual_retry(a_claim(attempt=7, max_attempts=3, free_attempts=4)), []
    while True:
        numbers.append(claim.attempt)
        verdict = judge(ERROR, claim)
        if verdict.status is not Status.QUEUED:
            break
        claim = next_claim(claim, verdict)

    assert numbers == [8, 9, 10]


def test_the_callers_luck_decides_the_jitter() -> None:
    claim = a_claim(definition=Definition("send_mail", backoff=Exponential(base=100, jitter=1)))
    assert decide(ERROR, claim, jitter=0.25).delay == timedelta(seconds=75)


outcomes = st.one_of(
    st.builds(Raised, st.text(), st.text(), st.none() | st.timedeltas()),
    st.builds(TimedOut, st.timedeltas(min_value=timedelta(seconds=1))),
    st.builds(LeaseLost),
    st.builds(Snoozed, st.timedeltas()),
    st.builds(Released),
)


@given(st.lists(outcomes, max_size=40), st.integers(1, 6), st.floats(0, 1, exclude_max=True))
def test_no_sequence_of_outcomes_uses_more_than_max_attempts(
    happened: list[Outcome], max_attempts: int, jitter: float
) -> None:
    claim, cost, queued = a_claim(max_attempts=max_attempts), 0, True
    for outcome in happened:
        verdict = decide(outcome, claim, jitter)
        cost += 0 if isinstance(outcome, Snoozed | Released) else 1
        queued = verdict.status is Status.QUEUED
        if not queued:
            break
        following = next_claim(claim, verdict)
        assert following.attempt > claim.attempt
        claim = following

    assert cost <= max_attempts
    assert queued == (cost < max_attempts)


UNSTORABLE = [
    pytest.param("a\0b", "a\N{REPLACEMENT CHARACTER}b", id="NUL"),
    pytest.param("a\ud800b", "a?b", id="lone surrogate"),
    pytest.param("日本 😀", "日本 😀", id="what Unicode has"),
    pytest.param("", "", id="nothing"),
]


@pytest.mark.parametrize("attempt", [1, 5], ids=["queued again", "given up"])
@pytest.mark.parametrize(("text", "written"), UNSTORABLE)
def test_what_an_error_says_is_made_storable(text: str, written: str, attempt: int) -> None:
    verdict = judge(Raised(code=text, message=text), a_claim(attempt=attempt, max_attempts=5))
    assert (verdict.error, verdict.error_code) == (written, written)


def test_the_text_of_a_rejection_is_made_storable() -> None:
    verdict = judge(Rejected("in\0valid", "a\ud800b"))
    assert (verdict.error_code, verdict.error) == ("in\N{REPLACEMENT CHARACTER}valid", "a?b")


def test_a_long_error_keeps_its_beginning() -> None:
    error = judge(Raised("E", "begin " + "x" * 300_000)).error
    assert error is not None
    assert error.startswith("begin xxx")
    assert error.endswith("x…")
    assert len(error) == SHOWN_ERROR


def test_an_error_of_just_the_shown_length_is_kept_whole() -> None:
    assert judge(Raised("E", "x" * SHOWN_ERROR)).error == "x" * SHOWN_ERROR


@given(st.text(st.characters(), max_size=200), st.integers(1, 2000))
def test_any_error_text_is_utf_8_without_nul_and_bounded(text: str, times: int) -> None:
    error = judge(Raised("E", text * times)).error
    assert error is not None
    error.encode("utf-8")
    assert "\0" not in error
    assert len(error) <= SHOWN_ERROR


TRACE = Trace("app.py:14 in fetch", "Traceback (most recent call last):\n  …")


@pytest.mark.parametrize("attempt", [1, 5], ids=["queued again", "given up"])
@pytest.mark.parametrize(
    "outcome", [Raised("E", "e", trace=TRACE), TimedOut(MINUTE, TRACE)], ids=["error", "timeout"]
)
def test_the_place_of_an_error_goes_into_the_details(outcome: Outcome, attempt: int) -> None:
    details = judge(outcome, a_claim(attempt=attempt, max_attempts=5)).details
    assert details is not None
    assert orjson.loads(details) == {"where": TRACE.where, "traceback": TRACE.traceback}


def test_a_final_error_says_where_it_was_raised() -> None:
    assert judge(Raised("Fail", "no use", final=True, trace=TRACE)).details is not None


def test_without_a_trace_there_are_no_details() -> None:
    assert judge(ERROR).details is None


@given(st.text(st.characters(), max_size=200), st.integers(1, 2000))
def test_any_trace_is_json_that_can_be_stored_and_bounded(text: str, times: int) -> None:
    details = Trace(text * times, text * times).as_json()
    require_json(details)
    assert len(orjson.loads(details)["traceback"]) <= SHOWN_TRACEBACK


@pytest.mark.parametrize("text", ["nope", "", "{", '"\\u0000"', "NaN"])
def test_a_result_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(PayloadInvalid, match="Nothing was written"):
        Succeeded(text)

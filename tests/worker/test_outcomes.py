"""The outcome of an attempt, for each way in which a handler can end."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.tenant_kit import HOUR
from tests.worker.shop import AT_ONCE, Payload, Shop, only

from leasehold.model.definition import Definition
from leasehold.model.outcome import Raised, Released, Snoozed, Succeeded
from leasehold.model.status import AttemptStatus, Status
from leasehold.worker import Fail, Handlers, Job, RetryLater, Snooze
from leasehold.worker.outcomes import NOTHING_RETURNED, outcome_of_error, outcome_of_result
from leasehold.worker.threads import ThreadRefused

FAILED, SNOOZED, SUCCEEDED = AttemptStatus.FAILED, AttemptStatus.SNOOZED, AttemptStatus.SUCCEEDED


def test_no_result_is_one_shared_outcome() -> None:
    assert outcome_of_result(None) is NOTHING_RETURNED


def test_a_result_is_stored_as_json() -> None:
    assert outcome_of_result({"sent": True}) == Succeeded('{"sent":true}')


def test_an_unusable_result_is_final() -> None:
    outcome = outcome_of_result(object())
    assert isinstance(outcome, Raised)
    assert (outcome.code, outcome.final) == ("result_invalid", True)


def test_a_snooze_keeps_its_delay() -> None:
    assert outcome_of_error(Snooze("5s")) == Snoozed(timedelta(seconds=5))


def test_a_refused_thread_gives_the_job_back() -> None:
    assert outcome_of_error(ThreadRefused("too many threads")) == Released()


@pytest.mark.parametrize(
    ("error", "code", "retry_in", "final"),
    [
        (RetryLater("1m", "busy"), "RetryLater", timedelta(minutes=1), False),
        (Fail("no such order"), "Fail", None, True),
        (KeyError("row"), "KeyError", None, False),
        (SystemExit(3), "SystemExit", None, False),
    ],
    ids=["RetryLater", "Fail", "KeyError", "SystemExit"],
)
def test_an_exception_is_recorded_by_its_name(
    error: BaseException, code: str, retry_in: timedelta | None, final: bool
) -> None:
    outcome = outcome_of_error(error)
    assert isinstance(outcome, Raised)
    assert (outcome.code, outcome.message, outcome.retry_in, outcome.final) == (code, str(error), retry_in, final)


async def test_a_snooze_costs_no_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> list[int]:
        if job.attempt < 3:
            raise Snooze("0s")
        return [job.attempt, job.tries]

    async with shop.working(only(report, max_attempts=1)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).result == [3, 1]
    assert await shop.statuses(job) == [SNOOZED, SNOOZED, SUCCEEDED]


async def test_a_snoozed_job_waits_for_as_long_as_it_said(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise Snooze(HOUR)

    async with shop.working(only(report)):
        record = await shop.waits_again(await shop.enqueue())
    assert record.started_at is not None
    assert HOUR <= record.scheduled_for - record.started_at < 2 * HOUR


async def test_a_handler_may_choose_when_it_is_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise RetryLater(HOUR, "the printer is warming up")

    async with shop.working(only(report, backoff=AT_ONCE)):
        record = await shop.waits_again(await shop.enqueue())
    assert record.started_at is not None
    assert HOUR <= record.scheduled_for - record.started_at < 2 * HOUR
    assert record.last_error == "the printer is warming up"
    assert await shop.statuses(record.id) == [FAILED]


async def test_a_retry_of_its_own_choice_costs_an_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise RetryLater(timedelta())

    async with shop.working(only(report, max_attempts=2)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.DEAD_LETTER
    assert await shop.statuses(job) == [FAILED, FAILED]


async def test_a_handler_that_says_fail_is_not_retried(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise Fail("the customer is gone")

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error) == (Status.FAILED, "the customer is gone")
    assert await shop.statuses(job) == [FAILED]


@pytest.mark.parametrize("ask", [Snooze, RetryLater])
async def test_a_delay_that_is_not_a_duration_fails_that_job_alone(
    shop: Shop, ask: type[Snooze | RetryLater]
) -> None:
    """It must not reach the finisher, which writes the results of all others too."""
    handlers = Handlers()

    @handlers.add(Definition("wrong", max_attempts=1))
    async def wrong(job: Job, payload: Payload) -> None:
        raise ask("soon")

    @handlers.add(Definition("right"))
    async def right(job: Job, payload: Payload) -> None: ...

    async with shop.working(handlers):
        record = await shop.ended(await shop.enqueue("wrong"))
        assert (await shop.ended(await shop.enqueue("right"))).status is Status.SUCCEEDED
    assert record.status is Status.DEAD_LETTER
    assert "'soon' is not a duration" in (record.last_error or "")


@pytest.mark.parametrize("result", [None, 7, "text", [1, {"a": None}], {"rows": 3}, False])
async def test_what_a_handler_returns_is_the_jobs_result(shop: Shop, result: object) -> None:
    async def report(job: Job, payload: Payload) -> object:
        return result

    async with shop.working(only(report)):
        assert (await shop.ended(await shop.enqueue())).result == result


@pytest.mark.parametrize(
    ("result", "message"),
    [(datetime.now(UTC), "result: datetime is not JSON"), ({"mean": float("nan")}, "result.mean: nan is not")],
    ids=["a datetime", "NaN"],
)
async def test_an_unusable_result_fails_the_job_without_a_retry(shop: Shop, result: object, message: str) -> None:
    """A retry would repeat effects that have happened."""

    async def report(job: Job, payload: Payload) -> object:
        return result

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error_code) == (Status.FAILED, "result_invalid")
    assert message in (record.last_error or "")
    assert await shop.statuses(job) == [FAILED]


async def test_an_exception_is_kept_with_its_attempt(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        if job.attempt == 1:
            raise LookupError("no customer 42")

    async with shop.working(only(report, backoff=AT_ONCE)):
        job = await shop.enqueue()
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    first, second = await shop.jobs.attempts(job)
    assert (first.status, first.error_code, first.error) == (FAILED, "LookupError", "no customer 42")
    assert (second.status, second.error) == (SUCCEEDED, None)


async def test_a_job_that_fails_every_time_ends_as_a_dead_letter(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None:
        raise LookupError(f"attempt {job.attempt}")

    async with shop.working(only(report, backoff=AT_ONCE, max_attempts=3)):
        job = await shop.enqueue()
        record = await shop.ended(job)
    assert (record.status, record.last_error) == (Status.DEAD_LETTER, "attempt 3")
    assert await shop.statuses(job) == [FAILED, FAILED, FAILED]

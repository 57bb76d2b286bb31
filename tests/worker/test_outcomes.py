"""The outcome of an attempt, for each way in which a handler can end."""

from datetime import timedelta
from typing import Any

import pytest

from leasehold import Fail, RetryLater, Snooze
from leasehold.model.definition import Definition
from leasehold.model.outcome import Raised, Released, Snoozed, Succeeded
from leasehold.worker import Handlers, Job
from leasehold.worker.handlers import Handler
from leasehold.worker.outcomes import NOTHING_RETURNED, outcome_of_error, outcome_of_result
from leasehold.worker.threads import ThreadRefused


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


def test_a_handler_can_be_replaced_and_put_back() -> None:
    handlers, definition = Handlers(), Definition("report")

    @handlers.add(definition)
    async def report(job: Job, payload: Any) -> None: ...

    async def other(job: Job, payload: Any) -> None: ...

    replaced = handlers.replace(Handler(definition, other))
    assert (replaced.call, handlers["report"].call) == (report, other)
    handlers.replace(replaced)
    assert handlers["report"].call is report

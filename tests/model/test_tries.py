"""Each attempt of a job counts as a try, except snoozes, hand-backs and attempts before a manual retry."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.model.job import Attempt
from leasehold.model.status import AttemptStatus
from leasehold.model.tries import first_attempt, try_numbers

FAILED, SNOOZED, BACK = AttemptStatus.FAILED, AttemptStatus.SNOOZED, AttemptStatus.GIVEN_BACK
NOW = datetime(2026, 11, 17, tzinfo=UTC)


def attempts(*statuses: AttemptStatus) -> list[Attempt]:
    return [Attempt(number, status, None, NOW, NOW) for number, status in enumerate(statuses, 1)]


def job(free: int) -> Any:
    return SimpleNamespace(free_attempts=free)


def test_each_failed_attempt_is_a_try() -> None:
    assert try_numbers(attempts(FAILED, FAILED, FAILED)) == {1: 1, 2: 2, 3: 3}


def test_an_attempt_after_a_snooze_is_the_same_try() -> None:
    assert try_numbers(attempts(FAILED, SNOOZED, BACK, FAILED)) == {1: 1, 2: 2, 3: 2, 4: 2}


def test_a_retry_by_hand_begins_the_count_of_tries_again() -> None:
    known = attempts(FAILED, FAILED, SNOOZED, FAILED)

    assert first_attempt(job(free=3), known) == 3
    assert try_numbers(known, 3) == {1: 1, 2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("free", "statuses", "first"),
    [
        (0, [], 1),
        (0, [FAILED], 1),
        (1, [SNOOZED], 1),
        (1, [FAILED, SNOOZED, FAILED], 1),
        (2, [FAILED, FAILED], 3),
        (2, [FAILED, FAILED, FAILED], 3),
        (4, [FAILED, FAILED, SNOOZED, BACK, FAILED], 3),
        (9, [FAILED, SNOOZED], 1),
    ],
)
def test_the_first_attempt_is_the_one_after_the_last_retry(
    free: int, statuses: list[AttemptStatus], first: int
) -> None:
    assert first_attempt(job(free), attempts(*statuses)) == first

"""Which try each attempt of a job was. People see tries; the number of an attempt is part of the fence."""

from collections.abc import Sequence

from leasehold.model.job import Attempt, JobRecord
from leasehold.model.status import AttemptStatus

FREE = frozenset({AttemptStatus.SNOOZED, AttemptStatus.GIVEN_BACK})
"""How an attempt ends that uses no try: the next attempt is the same try again."""


def first_attempt(job: JobRecord, attempts: Sequence[Attempt]) -> int:
    """Returns the attempt with which the tries of this job began: 1, or the first one after a retry by hand.

    A retry makes all attempts before it free. Returns 1 for a job that went on between the two reads.
    """
    free = sum(attempt.status in FREE for attempt in attempts)
    for attempt in attempts:
        if job.free_attempts == attempt.number - 1 + free:
            return attempt.number
        free -= attempt.status in FREE
    is_before_its_first = bool(attempts) and job.free_attempts == attempts[-1].number
    return job.free_attempts + 1 if is_before_its_first else 1


def try_numbers(attempts: Sequence[Attempt], first: int = 1) -> dict[int, int]:
    """Returns the try that each attempt was, by its number, with tries counted anew from the attempt `first`."""
    numbers: dict[int, int] = {}
    tries = 1
    for attempt in attempts:
        if attempt.number == first:
            tries = 1
        numbers[attempt.number] = tries
        tries += attempt.status not in FREE
    return numbers

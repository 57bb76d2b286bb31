"""Maps the attempts of a job to its tries. People see tries; the attempt number is part of the fence."""

from collections.abc import Sequence

from leasehold.model.job import Attempt, JobRecord
from leasehold.model.status import AttemptStatus

FREE = frozenset({AttemptStatus.SNOOZED, AttemptStatus.GIVEN_BACK})
"""Ends of an attempt that use no try: the next attempt is the same try again."""


def first_attempt(job: JobRecord, attempts: Sequence[Attempt]) -> int:
    """Returns the attempt that was the first try of this job: 1, or the first one after a manual retry.

    A retry makes all attempts before it free. Returns 1 for a job that changed between the two reads.
    """
    free = sum(attempt.status in FREE for attempt in attempts)
    for attempt in attempts:
        if job.free_attempts == attempt.number - 1 + free:
            return attempt.number
        free -= attempt.status in FREE
    is_before_its_first = bool(attempts) and job.free_attempts == attempts[-1].number
    return job.free_attempts + 1 if is_before_its_first else 1


def try_numbers(attempts: Sequence[Attempt], first: int = 1) -> dict[int, int]:
    """Returns the try that each attempt was, by its number, with tries counted from the attempt `first`."""
    numbers: dict[int, int] = {}
    tries = 1
    for attempt in attempts:
        if attempt.number == first:
            tries = 1
        numbers[attempt.number] = tries
        tries += attempt.status not in FREE
    return numbers

"""Counts of all tenants, added up from the figures of the fleet."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from leasehold.model.fleet_snapshot import OTHERS, FleetSnapshot
from leasehold.model.status import Status
from leasehold.operations.fleet import counts_of


def snapshot(jobs: Mapping[tuple[str | None, str], int], oldest: Mapping[str, float]) -> FleetSnapshot:
    return FleetSnapshot(7.5, jobs, {}, oldest, 1, 4, (), 0.0)


def test_jobs_of_all_tenants_are_added_up() -> None:
    jobs = {("acme", "ready"): 3, (OTHERS, "retrying"): 2, ("globex", "scheduled"): 1, ("acme", "running"): 4}
    found = counts_of(
        snapshot(jobs | {("acme", "dead_letter"): 5, ("globex", "dead_letter"): 1}, {"a": 2.0, "b": 9.0})
    )
    assert found.jobs == {Status.QUEUED: 6, Status.RUNNING: 4, Status.DEAD_LETTER: 6}
    assert (found.at_least, found.longest_wait, found.age.total_seconds()) == (frozenset(), timedelta(seconds=9), 7.5)


def test_without_jobs_all_counts_are_zero() -> None:
    found = counts_of(snapshot({}, {}))
    assert set(found.jobs.values()) == {0}
    assert (found.at_least, found.longest_wait) == (frozenset(), None)


@pytest.mark.parametrize(
    ("key", "jobs", "status"),
    [
        (("acme", "ready"), 10_000, Status.QUEUED),
        (("acme", "dead_letter"), 1_000, Status.DEAD_LETTER),
        ((OTHERS, "dead_letter"), 1, Status.DEAD_LETTER),
    ],
)
def test_a_count_that_was_stopped_says_so(key: tuple[str | None, str], jobs: int, status: Status) -> None:
    assert counts_of(snapshot({key: jobs}, {})).at_least == {status}


@pytest.mark.parametrize(
    ("key", "jobs"), [(("acme", "ready"), 9_999), (("acme", "dead_letter"), 999), (("acme", "running"), 20_000)]
)
def test_a_whole_count_does_not_say_that_there_is_more(key: tuple[str | None, str], jobs: int) -> None:
    assert counts_of(snapshot({key: jobs}, {})).at_least == set()

"""Limits that let nothing run are refused: a pause stops a scope."""

from datetime import UTC, datetime, timedelta

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.limits import Limits, Pause, Rate


def test_nothing_is_limited_by_default() -> None:
    assert (Limits().max_running, Limits().rate) == (None, None)


def test_the_smallest_limit_lets_one_run() -> None:
    assert Limits(max_running=1).max_running == 1


def test_a_rate_is_refused_as_long_as_it_is_not_enforced() -> None:
    with pytest.raises(InvalidInput, match=r"rate=Rate\(.* is not enforced yet.*Nothing was changed"):
        Limits(rate=Rate(1, timedelta(seconds=1)))


@pytest.mark.parametrize("max_running", [0, -1])
def test_a_limit_that_lets_nothing_run_is_refused(max_running: int) -> None:
    with pytest.raises(InvalidInput, match=rf"max_running={max_running} .*Nothing was changed.*pause it"):
        Limits(max_running=max_running)


@pytest.mark.parametrize(
    ("count", "period"),
    [(0, timedelta(seconds=1)), (-1, timedelta(seconds=1)), (1, timedelta()), (1, timedelta(seconds=-1))],
)
def test_a_rate_that_lets_nothing_run_is_refused_in_favour_of_a_pause(count: int, period: timedelta) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Rate(count, period)

    assert (f"count={count} is not" in str(refusal.value)) == (count < 1)
    assert (f"period={period} is not" in str(refusal.value)) == (period <= timedelta())
    assert "Nothing was changed. Correct the values; to stop a scope, pause it." in str(refusal.value)


@pytest.mark.parametrize("until", [None, datetime(2030, 1, 1, tzinfo=UTC)])
def test_a_pause_lasts_until_a_moment_or_until_someone_resumes(until: datetime | None) -> None:
    assert Pause("the provider is down", until).until == until


def test_a_pause_until_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"until=2030-01-01 00:00:00 has no timezone.*Nothing was changed"):
        Pause("the provider is down", datetime(2030, 1, 1))

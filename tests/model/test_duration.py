"""Every parameter that is a duration accepts the same forms and refuses others with the same message."""

from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from leasehold.app.enqueued import limit_of
from leasehold.config import Settings
from leasehold.errors import InvalidInput
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.dedupe import Always, Within
from leasehold.model.definition import Definition, Retention
from leasehold.model.duration import read_duration
from leasehold.model.job import NewJob
from leasehold.model.limits import Rate
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.worker import RetryLater, Snooze, WorkerSettings
from leasehold.worker.heartbeat import Leases

DURATIONS: dict[str, Callable[[Any], timedelta | float | None]] = {
    "Snooze": lambda given: Snooze(given).delay,
    "RetryLater": lambda given: RetryLater(given, "later").delay,
    "Exponential(base)": lambda given: Exponential(base=given).base,
    "Exponential(cap)": lambda given: Exponential(cap=given).cap,
    "Steps": lambda given: Steps(given).delays[0],
    "Retention(succeeded)": lambda given: Retention(given).succeeded,
    "Retention(dead_letter)": lambda given: Retention(dead_letter=given).dead_letter,
    "Definition(timeout)": lambda given: Definition("report", timeout=given).timeout,
    "NewJob(delay)": lambda given: NewJob(definition="report", delay=given).delay,
    "Within": lambda given: Within(given).window,
    "Always": lambda given: Always(given).expires,
    "Every": lambda given: Every(given).interval,
    "NewTrigger(spread)": lambda given: (
        NewTrigger(label="x", definition="x", schedule=Every(60), spread=given).spread
    ),
    "NewTrigger(dedupe_window)": lambda given: (
        NewTrigger(label="x", definition="x", event="x", dedupe_window=given).window
    ),
    "Rate": lambda given: Rate(1, given).period,
    "Leases(busy)": lambda given: Leases(busy=given).busy,
    "Leases(idle)": lambda given: Leases(idle=given).idle,
    "WorkerSettings(fallback)": lambda given: WorkerSettings(fallback=given).fallback,
    "WorkerSettings(grace)": lambda given: WorkerSettings(grace=given).grace,
    "WorkerSettings(prune_every)": lambda given: WorkerSettings(prune_every=given).prune_every,
    "result(timeout)": limit_of,
}


@pytest.mark.parametrize("given", ["1m30s", "90s", "90", "1.5m", 90, 90.0, timedelta(seconds=90)], ids=repr)
@pytest.mark.parametrize("take", DURATIONS.values(), ids=DURATIONS)
def test_every_parameter_takes_text_timedelta_and_seconds(
    take: Callable[[Any], timedelta | float | None], given: Any
) -> None:
    taken = take(given)

    assert (taken.total_seconds() if isinstance(taken, timedelta) else taken) == 90


@pytest.mark.parametrize("given", ["soon", "٣h", b"5s", True, nan])
@pytest.mark.parametrize("take", DURATIONS.values(), ids=DURATIONS)
def test_every_parameter_refuses_other_values(take: Callable[[Any], object], given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"duration"):
        take(given)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("30", 30),
        ("30s", 30),
        ("1.5 m", 90),
        ("2h", 7200),
        ("1d", 86_400),
        ("1w", 604_800),
        ("1h30m", 5400),
        ("1d 2h 3m 4s 5ms", 93_784.005),
        (" 5s ", 5),
        ("0s", 0),
    ],
)
def test_a_text_is_numbers_with_units(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "soon", "-1s", "+1s", "1 week", "30m1h", "1h1h", "1,5h", "1e3s", "5S", ".5s", "9" * 400 + "d"],
)
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a duration\. .*Nothing was changed"):
        read_duration(text)


@pytest.mark.parametrize("text", ["٣h", "３h", "1١s"])
def test_only_ascii_digits_are_digits(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"\\u\w{4}.* is not a duration"):
        read_duration(text)


@pytest.mark.parametrize("given", ["36501d", "99999999999d", 1e15])
def test_a_duration_of_more_than_a_century_is_refused(given: str | float) -> None:
    with pytest.raises(InvalidInput, match=r"longer than 36500 days|is not a duration"):
        read_duration(given)


@pytest.mark.parametrize("number", [inf, -inf, nan, 10**5000], ids=["inf", "-inf", "nan", "huge"])
def test_a_number_that_is_not_a_duration_is_refused(number: float) -> None:
    with pytest.raises(InvalidInput, match="is not a duration"):
        read_duration(number)


def test_a_setting_of_the_environment_is_read_alike() -> None:
    assert Settings.from_environment({"LEASEHOLD_FALLBACK": "1m30s"}).fallback == timedelta(seconds=90)


def test_a_backoff_in_text_is_the_same_as_one_in_seconds() -> None:
    assert Exponential("1m", cap="1d") == Exponential(60, cap=86_400)
    assert Steps("30s", timedelta(minutes=5)).as_json() == {"steps": [30, 300]}

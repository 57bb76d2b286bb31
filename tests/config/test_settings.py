"""Settings from the environment."""

from datetime import timedelta
from pathlib import Path

import pytest

from leasehold.config import Settings, read_duration
from leasehold.errors import InvalidInput


def test_nothing_said_means_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings(None, "leasehold", Path(".leasehold"), True, None)


def test_each_setting_has_a_variable_of_its_name() -> None:
    environment = {
        "LEASEHOLD_URL": "postgresql://db/app",
        "LEASEHOLD_SCHEMA": "jobs",
        "LEASEHOLD_HOME": "/data",
        "LEASEHOLD_NOTIFY": "off",
        "LEASEHOLD_FALLBACK": "2s",
    }
    expected = Settings("postgresql://db/app", "jobs", Path("/data"), False, timedelta(seconds=2))
    assert Settings.from_environment(environment) == expected


def test_an_empty_variable_is_one_that_was_not_set() -> None:
    assert Settings.from_environment({"LEASEHOLD_URL": "", "LEASEHOLD_NOTIFY": ""}) == Settings()


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("30", 30), ("30s", 30), ("1.5 m", 90), ("2h", 7200), ("1d", 86400)]
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["soon", "-1s", "1 week", "s", "1h30m", "9" * 400 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a duration"):
        read_duration(text)


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="LEASEHOLD_NOTIFY: 'maybe' is neither on nor off"):
        Settings.from_environment({"LEASEHOLD_NOTIFY": "maybe"})

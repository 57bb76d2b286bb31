"""Settings from the environment."""

from datetime import timedelta
from pathlib import Path

import pytest

from leasehold.config import Settings
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
        "LEASEHOLD_LISTEN_URL": "postgresql://direct/app",
        "LEASEHOLD_STATEMENT_TIMEOUT": "5s",
        "LEASEHOLD_EMBEDDED": "off",
    }
    expected = Settings(
        "postgresql://db/app",
        "jobs",
        Path("/data"),
        False,
        timedelta(seconds=2),
        "postgresql://direct/app",
        timedelta(seconds=5),
        False,
    )
    assert Settings.from_environment(environment) == expected


def test_an_empty_variable_is_one_that_was_not_set() -> None:
    assert Settings.from_environment({"LEASEHOLD_URL": "", "LEASEHOLD_NOTIFY": ""}) == Settings()


@pytest.mark.parametrize("text", ["0", "99ms", "2d"])
def test_a_time_limit_that_no_server_can_keep_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"LEASEHOLD_STATEMENT_TIMEOUT: '{text}' is not between"):
        Settings.from_environment({"LEASEHOLD_STATEMENT_TIMEOUT": text})


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="LEASEHOLD_NOTIFY: 'maybe' is neither on nor off"):
        Settings.from_environment({"LEASEHOLD_NOTIFY": "maybe"})

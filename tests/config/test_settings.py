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
        "LEASEHOLD_LOG_LINES": "50",
        "LEASEHOLD_SECRET_KEY": "k",
        "LEASEHOLD_REDACT_PATTERNS": "off",
        "LEASEHOLD_REDACT": r"CARD-\d+ pin=\d+",
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
        50,
        "k",
        False,
        (r"CARD-\d+", r"pin=\d+"),
    )
    assert Settings.from_environment(environment) == expected


def test_a_pattern_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"LEASEHOLD_REDACT: '\(' is not a regular expression"):
        Settings.from_environment({"LEASEHOLD_REDACT": "("})


def test_settings_do_not_show_the_secret_key() -> None:
    assert "of-mine" not in repr(Settings.from_environment({"LEASEHOLD_SECRET_KEY": "of-mine"}))


def test_an_empty_variable_is_one_that_was_not_set() -> None:
    assert Settings.from_environment({"LEASEHOLD_URL": "", "LEASEHOLD_NOTIFY": ""}) == Settings()


@pytest.mark.parametrize("text", ["0", "99ms", "2d"])
def test_a_time_limit_that_no_server_can_keep_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"LEASEHOLD_STATEMENT_TIMEOUT: '{text}' is not between"):
        Settings.from_environment({"LEASEHOLD_STATEMENT_TIMEOUT": text})


@pytest.mark.parametrize("text", ["0", "-1", "many", "1000001", "²"])
def test_a_number_of_log_lines_beyond_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"LEASEHOLD_LOG_LINES: '{text}' is not a number from 1 to 1,000,000"):
        Settings.from_environment({"LEASEHOLD_LOG_LINES": text})


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="LEASEHOLD_NOTIFY: 'maybe' is neither on nor off"):
        Settings.from_environment({"LEASEHOLD_NOTIFY": "maybe"})

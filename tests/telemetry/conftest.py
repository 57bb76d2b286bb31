"""Fixtures of the tests of telemetry, on both engines: those of tests/both_engines."""

import pytest
from tests.both_engines.conftest import database_url as database_url
from tests.both_engines.conftest import databases as databases
from tests.both_engines.conftest import kit as kit
from tests.both_engines.conftest import processes as processes
from tests.both_engines.conftest import shop as shop
from tests.both_engines.conftest import store as store
from tests.engines_under_test import choose_engines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_engines(metafunc)

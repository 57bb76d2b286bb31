"""Fixtures of the fault tests: those of the worker tests, and the command line."""

import pytest
from tests.cli.terminal import CommandLine
from tests.worker.conftest import processes

__all__ = ["processes"]


@pytest.fixture
def leasehold(database_url: str) -> CommandLine:
    return CommandLine(database_url)

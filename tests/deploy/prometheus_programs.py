"""The programs of Prometheus, as the machine has them."""

import os
import shutil

import pytest


def require_program(name: str) -> str:
    """Returns the path of `prometheus` or `promtool`. Without it, tests are skipped; in CI they fail."""
    if found := shutil.which(name):
        return found
    reason = f"{name} is not installed on this machine: apt-get install prometheus"
    if os.environ.get("REQUIRE_PROMETHEUS") or os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)

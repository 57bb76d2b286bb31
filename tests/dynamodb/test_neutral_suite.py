"""The corrected design of the scheduled job queue on DynamoDB: its test (g), by a pytest that only collects."""

import subprocess
import sys
from pathlib import Path


def test_g_the_neutral_suite_runs_on_this_engine() -> None:
    """Each test of the suite that needs no ability is there for both engines."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not abilities", "tests/store"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout.splitlines()
    of_postgres, of_dynamodb = (_without_engine(collected, name) for name in ("postgres", "dynamodb"))
    assert len(of_dynamodb) > 300
    assert of_postgres == of_dynamodb


def _without_engine(collected: list[str], name: str) -> set[str]:
    return {line.replace(f"[{name}", "[") for line in collected if f"[{name}" in line}

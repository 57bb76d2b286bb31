"""Settings that no worker could work with are refused before it starts."""

from datetime import timedelta
from typing import Any

import pytest
from tests.worker.shop import Processes

from leasehold.errors import InvalidInput
from leasehold.worker import WorkerSettings
from leasehold.worker.heartbeat import Leases

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    "fields", [{"busy": 0.9 * SECOND}, {"idle": 0.9 * SECOND}, {"busy": -SECOND}, {"busy": 0 * SECOND}]
)
def test_a_lease_that_a_late_heartbeat_would_lose_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"is shorter than 1 s.*Nothing was started"):
        Leases(**fields)


def test_a_lease_of_a_second_is_long_enough() -> None:
    assert Leases(busy=SECOND, idle=SECOND).margin < 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"slots": 0}, "slots=0 is not at least 1"),
        ({"dispatchers": -1}, "dispatchers=-1 is not at least 1"),
        ({"fallback": timedelta()}, "fallback=0:00:00 is shorter than 0.1 s"),
        ({"slots": 0, "dispatchers": 0}, "slots=0 is not at least 1; dispatchers=0"),
    ],
)
def test_settings_that_can_not_work_are_refused_with_every_reason(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        WorkerSettings(**fields)


async def test_the_command_line_refuses_such_a_lease(processes: Processes) -> None:
    worker = processes.worker("--lease", "300ms")
    assert await worker.code() == 2
    assert "A lease of 0.3 s is shorter than 1 s" in " ".join(worker.said.split())

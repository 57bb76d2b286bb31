"""The processor time of attempts: known of commands and of isolated handlers, also if the worker ends them.

tests/both_engines/test_usage.py has those of a worker that is killed.
"""

from typing import Any

import pytest
from tests.tenant_kit import ACME
from tests.worker.isolated_kit import Isolated
from tests.worker.shop import Shop
from tests.worker.test_commands import shell

from leasehold.model.job import JobId
from leasehold.model.status import AttemptStatus
from leasehold.operations import usage

SPENT = 0.2
BURN = f"import time\nwhile time.process_time() < {SPENT}: pass"


async def details_of(shop: Shop, job: JobId) -> dict[str, Any]:
    (attempt,) = await shop.jobs.attempts(job)
    return dict(attempt.details)


@pytest.mark.parametrize("then", ["", "crash", "hang"])
async def test_the_processor_time_of_an_isolated_handler_is_known_whatever_its_end(
    isolated: Isolated, then: str
) -> None:
    async with isolated.working():
        job = await isolated.enqueue("burn", seconds=SPENT, then=then)
        await isolated.shop.ended(job)
    assert (await details_of(isolated.shop, job))["cpu_seconds"] >= 2 * SPENT


async def test_a_warm_process_counts_each_call_by_itself(isolated: Isolated) -> None:
    async with isolated.working(slots=1):
        jobs = [await isolated.enqueue("burn", seconds=SPENT), await isolated.enqueue("atell")]
        for job in jobs:
            await isolated.shop.ended(job)
    first, second = [(await details_of(isolated.shop, job))["cpu_seconds"] for job in jobs]
    assert second < SPENT <= first


async def test_a_command_that_times_out_has_its_processor_time(shop: Shop) -> None:
    async with shop.working(shell(f"python3 -c '{BURN}'; sleep 1000", timeout=5.0, max_attempts=1)):
        job = await shop.enqueue()
        await shop.ended(job)
    (attempt,) = await shop.jobs.attempts(job)
    assert attempt.status is AttemptStatus.TIMEOUT
    assert attempt.details["cpu_seconds"] >= SPENT
    (row,) = (await usage.read(shop.store, ACME)).rows
    assert (row.cpu.total_seconds(), row.unknown) == (attempt.details["cpu_seconds"], 0)

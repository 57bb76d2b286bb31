"""A store after its server ended all connections: committed data stays, and the next calls connect again."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from tests.conftest import eventually
from tests.store.bench import REPORT, Bench

from leasehold import engine
from leasehold.errors import Unreachable
from leasehold.model.job import NewJob
from leasehold.model.status import Status


async def crash(bench: Bench, kit: engine.TestKit) -> None:
    """Returns when the store has replaced all of its connections."""
    await kit.crash()

    async def answers() -> bool:
        try:
            await asyncio.gather(*(bench.store.workers() for _ in range(10)), bench.store.evict(1))
        except Unreachable:
            return False
        return True

    await eventually(answers)


async def test_a_claim_is_finished_after_a_crash(bench: Bench, kit: engine.TestKit) -> None:
    claim = await bench.running()
    await crash(bench, kit)

    async def finished() -> bool:
        with suppress(Unreachable):
            await bench.succeed(claim)
            return True
        return False

    await eventually(finished)
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_an_acknowledged_job_outlives_a_crash(bench: Bench, kit: engine.TestKit) -> None:
    job = await bench.enqueue()
    await crash(bench, kit)
    assert await bench.status(job) is Status.QUEUED


@pytest.mark.abilities("atomic_bulk")
async def test_many_jobs_of_one_call_cost_no_more_statements(bench: Bench, kit: engine.TestKit) -> None:
    async def sent_for(count: int) -> Counter[str]:
        before = len(kit.statements())
        await bench.jobs.enqueue([NewJob(definition=REPORT.key) for _ in range(count)])
        return Counter(kit.statements()[before:])

    await bench.enqueue()
    assert sum((await sent_for(2)).values()) == sum((await sent_for(200)).values())

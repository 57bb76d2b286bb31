"""Worker processes on each engine: they drain on SIGTERM, and a job outlives the kill of its worker."""

import signal

from tests.conftest import eventually
from tests.tenant_kit import HOUR
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Workplace

from leasehold import engine
from leasehold.model.status import AttemptStatus, Status


async def test_sigterm_drains_a_worker_process(shop: Workplace, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("wait", payload=processes.payload)
    worker = processes.worker("--slots", "1", "--grace", "20s")
    await processes.noted("began")
    worker.send(signal.SIGTERM)
    processes.go()
    assert await worker.code() == 0
    assert (await shop.job(job)).status is Status.SUCCEEDED
    assert await shop.store.workers() == []


async def test_kill_9_costs_a_try_and_loses_no_job(
    shop: Workplace, processes: Processes, kit: engine.TestKit
) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("wait", payload=processes.payload)
    worker = processes.worker("--slots", "1")
    await processes.noted("began")
    worker.send(signal.SIGKILL)
    await worker.code()
    processes.go()
    await kit.clock().move(HOUR)
    async with shop.working(sample_handlers.handlers):

        async def ended() -> bool:
            return (await shop.job(job)).status.final

        await eventually(ended, what="the end of the job")
    assert await shop.statuses(job) == [AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED]

"""A handler that kills its worker, every time: it costs its attempts and no more, and other jobs are done."""

from collections import Counter

import pytest
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Shop

from leasehold.model.status import AttemptStatus, Status

CRASHED = AttemptStatus.CRASHED


@pytest.mark.parametrize("kind", ["poison", "poison_in_thread"])
async def test_a_job_that_kills_its_worker_starts_max_attempts_times(
    shop: Shop, processes: Processes, kind: str
) -> None:
    """The parent restarts children that die, and living workers reclaim the jobs of dead ones."""
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue(kind, payload=processes.payload)
    processes.worker("--processes", "2", "--lease", "1s")
    record = await shop.ended(job)
    assert record.status is Status.DEAD_LETTER
    assert await shop.history(job) == [CRASHED, CRASHED, CRASHED]
    assert [(note.job, note.attempt) for note in processes.notes("began")] == [(job, 1), (job, 2), (job, 3)]
    assert len({note.pid for note in processes.notes("began")}) == 3


@pytest.mark.faults
async def test_jobs_beside_a_poisonous_one_are_done(shop: Shop, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    poison = await shop.enqueue("poison", payload=processes.payload, max_attempts=2)
    others = await shop.enqueue_many(20, "note", payload=processes.payload)
    processes.worker("--processes", "2", "--lease", "1s")
    records = await shop.all_ended([poison, *others])
    assert Counter(record.status for record in records) == {Status.DEAD_LETTER: 1, Status.SUCCEEDED: 20}

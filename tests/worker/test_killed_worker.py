"""The verification strategy of seed 000, "Job Dispatch Redesign": a worker process that is killed."""

import signal
from collections import Counter

from tests.worker import sample_handlers
from tests.worker.shop import Processes, Shop

from leasehold.model.status import AttemptStatus, Status

CRASHED, SUCCEEDED = AttemptStatus.CRASHED, AttemptStatus.SUCCEEDED


async def test_another_worker_does_a_killed_workers_job_after_the_lease(shop: Shop, processes: Processes) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    killed = processes.worker("--lease", "2s", "--slots", "5")
    jobs = await shop.enqueue_many(20, "wait", payload=processes.payload)
    begun = {note.job for note in await processes.noted("began", 5)}
    processes.worker("--lease", "2s", "--slots", "5")
    killed.send(signal.SIGKILL)
    processes.go()
    assert {record.status for record in await shop.all_ended(jobs)} == {Status.SUCCEEDED}
    for job in jobs:
        assert await shop.statuses(job) == ([CRASHED, SUCCEEDED] if job in begun else [SUCCEEDED])
    assert Counter(note.job for note in processes.notes("ended")) == dict.fromkeys(jobs, 1)
    assert killed.pid not in {note.pid for note in processes.notes("ended")}

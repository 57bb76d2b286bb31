"""What is over goes, in batches, however much of it there is."""

from tests.postgres.rig import Raw
from tests.store.bench import HOUR, Bench

from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.job import NewJob


async def test_keys_that_are_held_no_longer_all_go_at_once(bench: Bench, observer: Raw) -> None:
    jobs = [NewJob(definition="report", dedupe=Dedupe(f"key-{number}", Within(HOUR))) for number in range(10)]
    await bench.door.enqueue(jobs)
    await bench.move_clock(2 * HOUR)
    await bench.store.prune(3)
    assert await observer.fetchval("select count(*) from leasehold.dedupe_holds where expires_at is not null") == 0
    assert await observer.fetchval("select count(*) from leasehold.jobs where tenant_id = 'acme'") == 10

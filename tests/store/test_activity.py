"""The activity of a queue: a known mix of jobs gives exactly the expected counts, of all tenants."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.job import NewJob
from leasehold.store import Activity


def counts(found: Activity, *names: str) -> dict[tuple[str, str], dict[str, int]]:
    """Returns the counts of each lane that has any of these names."""
    lanes = {
        (lane.definition, lane.tenant): {name: n for name, n in lane.counts.items() if name in names}
        for lane in found.lanes
    }
    return {lane: counted for lane, counted in lanes.items() if counted}


async def test_jobs_that_wait_and_run_are_counted_by_lane(bench: Bench) -> None:
    await bench.enqueue_many(3)
    await bench.claim_one()
    await bench.enqueue(delay=HOUR)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    found = await bench.store.activity()
    assert found.is_whole
    counted = counts(found, "ready", "running")
    assert counted[("report", ACME)] == {"ready": 2, "running": 1}
    assert counted[("report", OTHER)]["ready"] >= 1


@pytest.mark.abilities("series")
async def test_ends_of_the_last_minute_are_counted(bench: Bench) -> None:
    await bench.succeeded()
    await bench.move_clock(timedelta(minutes=2))
    await bench.succeeded()
    await bench.succeeded()
    await bench.dead_lettered()
    await bench.canceled()
    await bench.fail(await bench.running(max_attempts=3))
    found = await bench.store.activity()
    assert found.since is not None
    assert found.now - found.since == timedelta(minutes=1)
    ends = counts(found, "succeeded", "failed", "dead_letter", "canceled", "failed_tries")
    assert ends[("report", ACME)] == {"succeeded": 2, "dead_letter": 1, "canceled": 1, "failed_tries": 2}


@pytest.mark.abilities("series")
async def test_a_new_job_raises_the_number_of_enqueued_ones(bench: Bench) -> None:
    before = (await bench.store.activity()).enqueued
    await bench.enqueue_many(3)
    after = (await bench.store.activity()).enqueued
    assert before is not None
    assert after is not None
    assert after - before == 3


async def test_an_empty_queue_has_no_lanes(bench: Bench) -> None:
    found = await bench.store.activity()
    assert [lane for lane in found.lanes if lane.tenant == ACME] == []

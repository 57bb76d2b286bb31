"""The activity of a queue in Postgres: one statement that stops counting at its bounds, and says so."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import OTHER

from leasehold.engines.postgres import activity
from leasehold.model.job import NewJob


async def test_ready_jobs_beyond_the_bound_are_not_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_READY", 2)
    await bench.enqueue_many(3)
    found = await bench.store.activity()
    assert [lane.counts["ready"] for lane in found.lanes] == [2]
    assert not found.is_whole


async def test_lanes_beyond_the_bound_are_not_looked_at(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_LANES", 1)
    await bench.enqueue()
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    found = await bench.store.activity()
    assert len(found.lanes) == 1
    assert not found.is_whole


async def test_rates_are_of_a_shorter_time_where_ends_are_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six jobs end, one each second. With a list of three, those after its oldest one are counted, of their time."""
    monkeypatch.setattr(activity, "MOST_ENDS", 3)
    for _ in range(6):
        await bench.succeeded()
        await bench.move_clock(timedelta(seconds=1))
    found = await bench.store.activity()
    assert [lane.counts["succeeded"] for lane in found.lanes] == [2]
    assert found.since is not None
    assert timedelta(seconds=2.9) < found.now - found.since < timedelta(seconds=10)

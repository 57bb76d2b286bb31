"""A worker with little to do leaves out what was claimed long ago if reading it is slow; it misses no job by that."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.postgres.race_tools import Connections, parts_of
from tests.store.bench import Bench
from tests.tenant_kit import DAY, HOUR, OTHER

from leasehold.engines.postgres.claim.positions import ClaimPositions, FullLooks, ReadyRanges
from leasehold.model.job import JobId, NewJob
from leasehold.model.outcome import Released, Succeeded
from leasehold.store import Registration

LONGEST = timedelta(seconds=FullLooks.LONGEST)


class SlowLooks:
    """A worker for all tenants whose full looks count as slow, so that one is due each second."""

    def __init__(self, bench: Bench, registration: Registration) -> None:
        self._bench, self.registration = bench, registration
        self.now = 1_000.0
        parts_of(bench.store).monotonic = lambda: self.now

    async def claim(self) -> list[JobId]:
        return [claim.job for claim in (await self._bench.store.claim(self.registration, 10)).claims]

    async def given_back(self) -> JobId:
        """Returns a job that was given back, while the one behind it was claimed and finished."""
        first, second = await self._bench.enqueue_many(2)
        claims = (await self._bench.store.claim(self.registration, 10)).claims
        assert [claim.job for claim in claims] == [first, second]
        await self._bench.finish_all([(claims[0], Released()), (claims[1], Succeeded())])
        return first


@pytest.fixture
async def worker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> SlowLooks:
    """A worker that has just looked at all ready jobs, and found none."""
    monkeypatch.setattr(FullLooks, "CHEAP", -1.0)
    monkeypatch.setattr(FullLooks, "MANY_DEAD_ROWS", 0)
    monkeypatch.setattr(ClaimPositions, "READ_AGAIN", 0)
    made = SlowLooks(bench, await bench.join(tenants=None, lease=365 * DAY))
    for _ in range(2):
        assert await made.claim() == []
    return made


async def test_a_job_behind_the_position_is_claimed_at_once(bench: Bench, worker: SlowLooks) -> None:
    for _ in range(3):
        job = await bench.enqueue()
        assert await worker.claim() == [job]


async def test_jobs_of_other_lanes_and_priorities_are_claimed_at_once(bench: Bench, worker: SlowLooks) -> None:
    await worker.given_back()
    (foreign,) = await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    expected = {await bench.enqueue(priority=1), await bench.enqueue(priority=900), await bench.enqueue("email")}
    assert set(await worker.claim()) == expected | {foreign.id}


async def test_a_job_that_was_given_back_waits_for_a_full_look(bench: Bench, worker: SlowLooks) -> None:
    job = await worker.given_back()
    assert await worker.claim() == []
    worker.now += 2 * FullLooks.LONGEST
    assert await worker.claim() == [job]


async def test_the_look_before_a_sleep_is_full_if_one_is_due(bench: Bench, worker: SlowLooks) -> None:
    job = await worker.given_back()
    worker.now += FullLooks.LONGEST
    assert await worker.claim() == []
    settled = await bench.store.prepare_to_sleep(worker.registration, 10)
    assert [claim.job for claim in settled.claims] == [job]


async def test_a_worker_that_sleeps_without_a_full_look_comes_back(bench: Bench, worker: SlowLooks) -> None:
    job = await worker.given_back()
    settled = await bench.store.prepare_to_sleep(worker.registration, 10)
    assert (settled.claims, settled.more, settled.next_due) == ([], False, LONGEST)
    worker.now += FullLooks.LONGEST
    assert await worker.claim() == []
    settled = await bench.store.prepare_to_sleep(worker.registration, 10)
    assert [claim.job for claim in settled.claims] == [job]


async def test_an_earlier_due_time_wakes_it_earlier(
    bench: Bench, worker: SlowLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullLooks, "CHEAP", -DAY.total_seconds())
    monkeypatch.setattr(FullLooks, "LONGEST", DAY.total_seconds())
    worker.now += 2 * LONGEST.total_seconds()
    assert await worker.claim() == []
    await bench.enqueue(delay=HOUR)
    next_due = (await bench.store.prepare_to_sleep(worker.registration, 10)).next_due
    assert next_due is not None
    assert next_due <= HOUR


async def test_after_a_full_look_a_worker_sleeps_on(bench: Bench, worker: SlowLooks) -> None:
    worker.now += FullLooks.LONGEST
    settled = await bench.store.prepare_to_sleep(worker.registration, 10)
    assert (settled.claims, settled.more, settled.next_due) == ([], False, None)


async def test_a_job_that_commits_a_little_late_is_claimed_at_once(
    bench: Bench, worker: SlowLooks, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClaimPositions, "READ_AGAIN", 5)
    producer = await connections.open()
    async with producer.transaction():
        (late,) = await bench.jobs.enqueue([NewJob(definition="report")], within=producer)
        job = await bench.enqueue()
        assert await worker.claim() == [job]
    assert await worker.claim() == [late.id]


async def test_looks_are_full_if_few_rows_are_dead(
    bench: Bench, worker: SlowLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullLooks, "MANY_DEAD_ROWS", 1_000_000)
    worker.now += 2 * FullLooks.LONGEST
    assert await worker.claim() == []
    job = await worker.given_back()
    assert await worker.claim() == [job]


places = st.tuples(st.sampled_from(["a", "b", "ba", "c"]), st.integers(1, 3), st.integers(1, 3_000))


@given(st.lists(places), st.lists(places))
def test_ranges_leave_out_no_more_than_up_to_the_positions(
    claimed: list[tuple[str, int, int]], waiting: list[tuple[str, int, int]]
) -> None:
    positions = ClaimPositions()
    positions.note_claims([("report", *place) for place in claimed])
    reached = {(tenant, priority): seq for tenant, priority, seq in claimed}
    ranges = positions.ready_ranges(["report"], full=False)
    for tenant, priority, seq in waiting:
        read = _times_read(ranges, tenant, priority, seq)
        again = max(-1, reached.get((tenant, priority), 0) - ClaimPositions.READ_AGAIN)
        assert read == (seq > again)


def test_the_lanes_with_most_claimed_jobs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimPositions, "MOST_LANES_LEFT_OUT", 1)
    positions = ClaimPositions()
    positions.note_claims([("report", "b", 100, 1), ("report", "a", 100, 2), ("report", "a", 100, 3)])
    positions.note_claims([("report", "b", 100, 4), ("report", "c", 100, 5)])
    positions.note_claims([("report", "a", 100, 6), ("report", "a", 100, 7)])
    assert {each.lane.tenant for each in positions.ready_ranges(["report"], full=False).lanes} == {"a"}


def _times_read(ranges: ReadyRanges, tenant: str, priority: int, seq: int) -> int:
    in_gaps = sum(gap.after < tenant < gap.before for gap in ranges.gaps)
    in_lanes = sum(
        each.lane.tenant == tenant
        and (each.from_priority, each.from_seq) < (priority, seq)
        and priority <= each.to_priority
        for each in ranges.lanes
    )
    return in_gaps + in_lanes

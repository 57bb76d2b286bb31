"""Retention: what has ended goes when its time is over, with all that belongs to it; nothing else ever goes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.store.bench import BROUGHT_ID, REPORT, Bench, all_jobs
from tests.tenant_kit import DAY, HOUR

from leasehold.model.definition import Retention
from leasehold.model.job import LogLine, NewJob
from leasehold.model.outcome import Succeeded
from leasehold.model.status import FINAL, Status

YEARS = timedelta(days=3600)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.CANCELED])
async def test_succeeded_jobs_are_kept_for_30_days(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    await bench.move_clock(30 * DAY - HOUR)
    assert await bench.store.prune(100) == 0
    await bench.move_clock(2 * HOUR)
    assert await bench.store.prune(100) == 1
    assert await bench.jobs.get(job) is None


@pytest.mark.parametrize("status", [Status.FAILED, Status.DEAD_LETTER])
async def test_failed_jobs_are_kept_for_ever(bench: Bench, status: Status) -> None:
    job = await bench.ended(status)
    await bench.move_clock(YEARS)
    assert await bench.store.prune(100) == 0
    assert await bench.status(job) is status


@pytest.mark.parametrize("status", sorted(FINAL))
async def test_a_definition_says_how_long_its_jobs_are_kept(bench: Bench, status: Status) -> None:
    each_an_hour = Retention(succeeded=HOUR, canceled=HOUR, failed=HOUR, dead_letter=HOUR)
    await bench.store.sync_definitions([replace(REPORT, key="brief", retention=each_an_hour)])
    registration = await bench.join("brief", lease=DAY)
    job = await bench.ended(status, definition="brief", registration=registration)
    await bench.move_clock(HOUR / 2)
    assert await bench.store.prune(100) == 0
    await bench.move_clock(HOUR)
    assert await bench.store.prune(100) == 1
    assert await bench.jobs.get(job) is None


async def test_a_batch_keeps_each_job_for_its_own_time(bench: Bench) -> None:
    times = {"brief": HOUR, "long": DAY, "kept": None}
    definitions = [replace(REPORT, key=key, retention=Retention(succeeded=time)) for key, time in times.items()]
    await bench.store.sync_definitions(definitions)
    claims = [
        await bench.running(key, registration=await bench.join(key, lease=DAY)) for key in ("kept", "long", "brief")
    ]
    assert not await bench.finish_all([(claim, Succeeded()) for claim in claims])
    for passed, left in ((0, {"brief", "long", "kept"}), (2, {"long", "kept"}), (24, {"kept"}), (10_000, {"kept"})):
        await bench.move_clock(passed * HOUR)
        await bench.store.prune(100)
        assert {job.definition for job in await all_jobs(bench.jobs)} == left


async def test_a_canceled_waiting_job_has_its_definitions_retention(bench: Bench) -> None:
    job = await bench.enqueue()
    await bench.jobs.cancel([job])
    await bench.move_clock(29 * DAY)
    assert await bench.store.prune(100) == 0
    await bench.move_clock(2 * DAY)
    assert await bench.store.prune(100) == 1


@pytest.mark.parametrize("microseconds", [0, 1, 50, 1_000_001])
async def test_a_retention_of_microseconds_is_kept_as_it_is(bench: Bench, microseconds: int) -> None:
    brief = replace(REPORT, key="brief", retention=Retention(canceled=timedelta(microseconds=microseconds)))
    await bench.store.sync_definitions([brief])
    (stored,) = [each.definition for each in await bench.store.definitions() if each.definition.key == "brief"]
    assert stored == brief
    await bench.jobs.cancel([await bench.enqueue("brief")])
    await bench.move_clock(HOUR)
    assert await bench.store.prune(100) == 1


async def test_an_unfinished_job_is_never_pruned(bench: Bench) -> None:
    running = (await bench.running()).job
    retrying = await bench.running()
    await bench.fail(retrying)
    jobs = [running, retrying.job, await bench.enqueue(), await bench.enqueue(delay=HOUR)]
    await bench.move_clock(YEARS)
    assert await bench.store.prune(100) == 0
    assert {job.id for job in await all_jobs(bench.jobs)} == set(jobs)


async def test_the_time_counts_from_the_end_and_not_from_the_enqueue(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(31 * DAY)
    await bench.succeed(claim)
    assert await bench.store.prune(100) == 0
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_a_retry_begins_the_retention_again(bench: Bench) -> None:
    job = await bench.succeeded()
    await bench.move_clock(20 * DAY)
    await bench.jobs.retry({job: 1})
    await bench.succeed(await bench.claim_one())
    await bench.move_clock(20 * DAY)
    assert await bench.store.prune(100) == 0


async def test_attempts_and_lines_go_with_their_job(bench: Bench) -> None:
    first = await bench.running()
    await bench.store.append_log([(first, LogLine(1, "a line"))])
    await bench.fail(first)
    await bench.move_clock(HOUR)
    await bench.succeed(await bench.claim_one())
    await bench.move_clock(31 * DAY)
    assert await bench.store.prune(100) == 1
    assert list(await bench.jobs.attempts(first.job)) == []
    assert list(await bench.jobs.lines(first.job, 1)) == []


async def test_attempts_and_lines_of_others_stay(bench: Bench) -> None:
    kept = await bench.running()
    await bench.store.append_log([(kept, LogLine(1, "a line"))])
    await bench.fail(kept, final=True)
    await bench.succeeded()
    await bench.move_clock(31 * DAY)
    assert await bench.store.prune(100) == 1
    assert len(await bench.jobs.attempts(kept.job)) == 1
    assert await bench.texts(kept) == ["a line"]


async def test_pruning_keeps_its_limit_and_goes_on_the_next_time(bench: Bench) -> None:
    for _ in range(5):
        await bench.succeeded()
    await bench.move_clock(31 * DAY)
    assert [await bench.store.prune(2) for _ in range(4)] == [2, 2, 1, 0]
    assert await all_jobs(bench.jobs) == []


async def test_a_brought_id_may_be_used_again_when_its_job_is_gone(bench: Bench) -> None:
    await bench.succeeded(id=BROUGHT_ID)
    await bench.move_clock(31 * DAY)
    await bench.store.prune(100)
    (placed,) = await bench.jobs.enqueue([NewJob(definition="report", id=BROUGHT_ID)])
    assert placed.created

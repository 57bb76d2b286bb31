"""Find and counts: each filter alone and together, page by page, newest first."""

from typing import Any

import pytest
from tests.store.bench import BROUGHT_ID, GREATEST_ID, LEAST_ID, UNKNOWN_ID, Bench, EngineUnderTest, all_jobs
from tests.store.bystander import BYSTANDER, CORRELATION
from tests.tenant_kit import DAY, HOUR, OTHER, SECOND

from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, Source
from leasehold.model.outcome import Raised
from leasehold.model.status import Status
from leasehold.store import Filter


async def found(bench: Bench, where: Filter) -> list[JobId]:
    return [job.id for job in await all_jobs(bench.jobs, where)]


async def one_of_each_status(bench: Bench) -> dict[Status, JobId]:
    ended = {
        status: await bench.ended(status)
        for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER)
    }
    running = (await bench.running()).job
    return {**ended, Status.RUNNING: running, Status.QUEUED: await bench.enqueue()}


async def test_without_a_filter_all_are_found_newest_first(bench: Bench) -> None:
    jobs = list((await one_of_each_status(bench)).values())
    assert await found(bench, Filter()) == jobs[::-1]


@pytest.mark.parametrize("page", [1, 2, 50])
@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_the_greatest_and_the_least_id_are_found(bench: Bench, ended: bool, page: int) -> None:
    make = bench.succeeded if ended else bench.enqueue
    for job in (LEAST_ID, BROUGHT_ID, GREATEST_ID):
        await make(id=job)
    assert [job.id for job in await all_jobs(bench.jobs, page=page)] == [GREATEST_ID, BROUGHT_ID, LEAST_ID]


async def test_nothing_is_found_below_the_least_id(bench: Bench) -> None:
    await bench.enqueue(id=LEAST_ID)
    page = await bench.jobs.find(Filter(), LEAST_ID, 10)
    assert (list(page.jobs), page.next) == ([], None)


async def test_find_and_get_return_the_same(bench: Bench) -> None:
    await one_of_each_status(bench)
    records = await all_jobs(bench.jobs)
    assert records == [await bench.job(record.id) for record in records]


async def test_several_jobs_are_read_at_once(bench: Bench) -> None:
    jobs = [*(await one_of_each_status(bench)).values(), JobId(UNKNOWN_ID)]
    records = await bench.jobs.get_many(jobs)
    assert {record.id: record for record in records} == {job: await bench.job(job) for job in jobs[:-1]}


async def test_a_tenant_without_jobs_finds_none(engine: EngineUnderTest) -> None:
    page = await engine.store.tenant(OTHER).find(Filter(), None, 10)
    assert (list(page.jobs), page.next) == ([], None)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.BLOCKED])
async def test_jobs_are_found_by_status(bench: Bench, status: Status) -> None:
    jobs = await one_of_each_status(bench)
    assert await found(bench, Filter(statuses=(status,))) == [jobs[status]]


async def test_jobs_are_found_by_any_of_several_statuses(bench: Bench) -> None:
    jobs = await one_of_each_status(bench)
    wanted = (Status.QUEUED, Status.SUCCEEDED, Status.DEAD_LETTER)
    assert set(await found(bench, Filter(statuses=wanted))) == {jobs[status] for status in wanted}


async def test_no_job_is_blocked_here(bench: Bench) -> None:
    await one_of_each_status(bench)
    assert await found(bench, Filter(statuses=(Status.BLOCKED,))) == []


async def test_future_jobs_and_retries_are_queued_to_everyone(bench: Bench) -> None:
    claim = await bench.running()
    await bench.fail(claim)
    future = await bench.enqueue(delay=HOUR)
    assert set(await found(bench, Filter(statuses=(Status.QUEUED,)))) == {claim.job, future}


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_jobs_are_found_by_definition(bench: Bench, ended: bool) -> None:
    make = bench.succeeded if ended else bench.enqueue
    report, email = await make(definition="report"), await make(definition="email")
    assert await found(bench, Filter(definitions=("email",))) == [email]
    assert set(await found(bench, Filter(definitions=("email", "report")))) == {report, email}
    assert await found(bench, Filter(definitions=("no-such-thing",))) == []


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
@pytest.mark.parametrize("source", Source)
async def test_jobs_are_found_by_source(bench: Bench, source: Source, ended: bool) -> None:
    make = bench.succeeded if ended else bench.enqueue
    jobs = {each: await make(source=each) for each in Source}
    assert await found(bench, Filter(source=source)) == [jobs[source]]


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_jobs_are_found_by_correlation_and_never_another_tenants(bench: Bench, ended: bool) -> None:
    make = bench.succeeded if ended else bench.enqueue
    jobs = [await make(correlation_id=CORRELATION), await make(correlation_id="another"), await make()]
    assert await found(bench, Filter(correlation_id=CORRELATION)) == [jobs[0]]


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_jobs_are_found_by_when_they_were_created(bench: Bench, ended: bool) -> None:
    make = bench.succeeded if ended else bench.enqueue
    jobs = []
    for _ in range(3):
        jobs.append(await make())
        await bench.move_clock(HOUR)
    middle = (await bench.job(jobs[1])).queued_at
    assert await found(bench, Filter(created_after=middle + SECOND)) == [jobs[2]]
    assert await found(bench, Filter(created_before=middle - SECOND)) == [jobs[0]]
    between = Filter(created_after=middle - SECOND, created_before=middle + SECOND)
    assert await found(bench, between) == [jobs[1]]


async def test_a_job_that_ran_late_was_still_created_when_it_was_enqueued(bench: Bench) -> None:
    job = await bench.enqueue()
    created = (await bench.job(job)).queued_at
    await bench.move_clock(HOUR)
    await bench.fail(await bench.claim_one())
    await bench.move_clock(HOUR)
    await bench.succeed(await bench.claim_one())
    assert await found(bench, Filter(created_before=created + SECOND)) == [job]


async def one_of_each_wait(bench: Bench) -> dict[str, JobId]:
    retrying, came_due = await bench.running(), await bench.running()
    await bench.finish(retrying, Raised("Unlucky", "no jitter", retry_in=DAY))
    await bench.fail(came_due)
    soon = await bench.enqueue(delay=SECOND)
    await bench.move_clock(HOUR)
    return {
        "retrying": retrying.job,
        "tried and due": came_due.job,
        "came due": soon,
        "ready": await bench.enqueue(),
        "scheduled": await bench.enqueue(delay=HOUR),
    }


@pytest.mark.parametrize(
    ("due", "tried", "expected"),
    [
        (True, None, {"ready", "came due", "tried and due"}),
        (False, None, {"scheduled", "retrying"}),
        (None, True, {"retrying", "tried and due"}),
        (None, False, {"ready", "came due", "scheduled"}),
        (False, True, {"retrying"}),
        (False, False, {"scheduled"}),
        (True, True, {"tried and due"}),
        (True, False, {"ready", "came due"}),
    ],
)
async def test_queued_jobs_are_told_apart_by_their_time_and_their_attempts(
    bench: Bench, due: bool | None, tried: bool | None, expected: set[str]
) -> None:
    jobs = await one_of_each_wait(bench)
    where = Filter(statuses=(Status.QUEUED,), due=due, tried=tried)
    assert set(await found(bench, where)) == {jobs[name] for name in expected}


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.DEAD_LETTER])
async def test_a_job_that_does_not_wait_is_due_and_was_tried(bench: Bench, status: Status) -> None:
    job = (await one_of_each_status(bench))[status]
    assert await found(bench, Filter(statuses=(status,), due=True, tried=True)) == [job]
    assert await found(bench, Filter(statuses=(status,), due=False)) == []
    assert await found(bench, Filter(statuses=(status,), tried=False)) == []


async def test_a_job_canceled_before_its_time_counts_as_due_and_never_tried(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    await bench.jobs.cancel([job])
    assert await found(bench, Filter(due=True, tried=False)) == [job]


async def test_everything_given_must_match(bench: Bench) -> None:
    match = await bench.succeeded(definition="email", source=Source.EVENT, correlation_id="x")
    await bench.succeeded(definition="report", source=Source.EVENT, correlation_id="x")
    await bench.succeeded(definition="email", source=Source.MANUAL, correlation_id="x")
    await bench.succeeded(definition="email", source=Source.EVENT, correlation_id="y")
    await bench.enqueue(definition="email", source=Source.EVENT, correlation_id="x")
    where = Filter((Status.SUCCEEDED,), ("email",), Source.EVENT, "x")
    assert await found(bench, where) == [match]


@pytest.mark.parametrize("page", [1, 2, 3, 7, 50])
async def test_a_walk_over_all_pages_misses_none_and_repeats_none(bench: Bench, page: int) -> None:
    jobs = [await (bench.succeeded if number % 3 else bench.failed)() for number in range(8)]
    jobs += [await bench.enqueue() for _ in range(4)]
    assert [job.id for job in await all_jobs(bench.jobs, page=page)] == jobs[::-1]


async def test_a_walk_over_jobs_of_one_batch_misses_none_and_repeats_none(bench: Bench) -> None:
    """They were created at the same moment: something else must tell them apart."""
    jobs = await bench.enqueue_many(20)
    walked = [job.id for job in await all_jobs(bench.jobs, page=3)]
    assert len(walked) == 20
    assert set(walked) == set(jobs)


async def test_a_page_holds_no_more_than_its_limit(bench: Bench) -> None:
    await bench.enqueue_many(5)
    page = await bench.jobs.find(Filter(), None, 3)
    assert len(page.jobs) == 3
    assert page.next is not None


async def test_a_filtered_walk_keeps_its_filter_on_every_page(bench: Bench) -> None:
    reports, emails = [], []
    for _ in range(6):
        reports.append(await bench.enqueue("report"))
        emails.append(await bench.enqueue("email"))
    walked = await all_jobs(bench.jobs, Filter(definitions=("email",)), page=2)
    assert [job.id for job in walked] == emails[::-1]


async def test_jobs_that_end_or_come_while_one_walks_disturb_nobody(bench: Bench) -> None:
    jobs = [await bench.enqueue() for _ in range(9)]
    page = await bench.jobs.find(Filter(), None, 3)
    walked = [job.id for job in page.jobs]
    while page.next is not None:
        await bench.succeed(await bench.claim_one())
        await bench.enqueue(delay=HOUR)
        page = await bench.jobs.find(Filter(), page.next, 3)
        walked += [job.id for job in page.jobs]
    assert walked == jobs[::-1]


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_a_job_with_a_shared_id_is_found_by_its_own_tenant(engine: EngineUnderTest, ended: bool) -> None:
    """The bystander's job of this id waits, and the other's has ended."""
    await Bench(engine, OTHER).succeeded(id=BROUGHT_ID)
    bench = Bench(engine)
    await (bench.succeeded if ended else bench.enqueue)(id=BROUGHT_ID, payload={"of": "acme"})
    assert await all_jobs(bench.jobs) == [await bench.job(BROUGHT_ID)]
    assert (await bench.job(BROUGHT_ID)).payload == {"of": "acme"}


async def test_another_tenants_cursor_shows_only_ones_own(engine: EngineUnderTest) -> None:
    theirs = await engine.store.tenant(BYSTANDER).find(Filter(), None, 1)
    bench = Bench(engine)
    job = await bench.enqueue()
    assert theirs.next is not None
    page = await bench.jobs.find(Filter(), theirs.next, 10)
    assert {found.id for found in page.jobs} <= {job}


@pytest.mark.parametrize("cursor", ["", "nonsense", "'; drop table jobs", "ü" * 500])
async def test_a_cursor_that_is_none_is_refused(bench: Bench, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        await bench.jobs.find(Filter(), cursor, 10)


async def test_jobs_are_counted_by_status(bench: Bench) -> None:
    await one_of_each_status(bench)
    await bench.enqueue_many(2)
    counts = await bench.jobs.counts(100)
    expected = dict.fromkeys(Status, 1) | {Status.QUEUED: 3, Status.BLOCKED: 0}
    assert {status: counts.get(status, 0) for status in Status} == expected


async def test_a_count_stops_at_its_cap(bench: Bench) -> None:
    for _ in range(3):
        await bench.succeeded()
    await bench.enqueue_many(5)
    counts = await bench.jobs.counts(2)
    assert (counts[Status.QUEUED], counts[Status.SUCCEEDED]) == (2, 2)
    assert (await bench.jobs.counts(4))[Status.QUEUED] == 4
    assert (await bench.jobs.counts(5))[Status.QUEUED] == 5


@pytest.mark.parametrize("cursor", [7, b"a", BROUGHT_ID.encode(), []])
async def test_a_cursor_that_is_not_text_is_refused(bench: Bench, cursor: Any) -> None:
    """Found by the poison run: it raised AttributeError."""
    for find in (bench.jobs.find, bench.store.find_all_tenants):
        with pytest.raises(InvalidInput, match="is not a cursor"):
            await find(Filter(), cursor, 10)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", True, None])
async def test_a_page_that_is_not_a_number_of_jobs_is_refused(bench: Bench, limit: Any) -> None:
    """Found by the poison run: it raised IndexError or TypeError."""
    await bench.enqueue()
    for find in (bench.jobs.find, bench.store.find_all_tenants):
        with pytest.raises(InvalidInput, match="Nothing was read"):
            await find(Filter(), None, limit)

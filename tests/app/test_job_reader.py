"""Reading a tenant's jobs from Python: lists, counts, attempts, log lines, progress, explanations."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.app.helpers import ended
from tests.conftest import PATIENCE

from leasehold import (
    AttemptStatus,
    CheckState,
    InvalidInput,
    Job,
    JobRecord,
    Leasehold,
    Limits,
    LineKind,
    Scope,
    ScopeKind,
    Snooze,
    Source,
    Status,
    Steps,
    UnknownJob,
)
from leasehold.operations import reading

UNKNOWN = "01890a5d-ac96-774b-bcce-b30209900000"


def note(job: Job, number: int) -> int:
    job.log(f"noting {number}")
    job.progress(0.5, "half of it")
    job.log(f"noted {number}")
    return number


def ids(jobs: Any) -> list[str]:
    return [job.id for job in jobs]


# ------------------------------------------------------------------------------------------------- list and count


def test_jobs_are_listed_page_by_page_newest_first(app: Leasehold) -> None:
    note_job, acme = app.job(note), app.tenant("acme")
    placed = [acme.enqueue(note_job, number) for number in range(5)]
    app.tenant("other").enqueue(note_job, 0)
    found: list[str] = []
    cursor = None
    while not found or cursor:
        page = acme.jobs.list(limit=2, cursor=cursor)
        found += ids(page.jobs)
        cursor = page.next
    assert found == ids(reversed(placed))


def test_a_list_says_why_a_job_does_not_start(app: Leasehold) -> None:
    acme = app.tenant("acme")
    acme.enqueue(app.job(note), 1)
    page = acme.jobs.list()
    assert page.held_by(page.jobs[0]) == ["no live worker serves it"]
    assert page.why(page.jobs[0]) == "no live worker serves it"
    acme.options(delay="1h").enqueue(app.job(key="later")(note), 1)
    later = acme.jobs.list(states="scheduled")
    assert later.why(later.jobs[0]).startswith("due in ")


def test_jobs_are_listed_by_filter(app: Leasehold) -> None:
    first, second = app.job(key="first")(note), app.job(key="second")(note)
    acme = app.tenant("acme")
    ready = acme.options(correlation_id="c1").enqueue(first, 1).id
    scheduled = acme.options(delay="1h").enqueue(second, 1).id
    assert ids(acme.jobs.list(states="ready").jobs) == [ready]
    assert ids(acme.jobs.list(states=["scheduled", "running"]).jobs) == [scheduled]
    assert ids(acme.jobs.list(definitions="second").jobs) == [scheduled]
    assert ids(acme.jobs.list(correlation_id="c1").jobs) == [ready]
    assert ids(acme.jobs.list(source=Source.EVENT).jobs) == []
    assert ids(acme.jobs.list(source="manual").jobs) == [scheduled, ready]
    hour = timedelta(hours=1)
    assert ids(acme.jobs.list(after=datetime.now(UTC) + hour).jobs) == []
    assert ids(acme.jobs.list(after=datetime.now(UTC) - hour, before=datetime.now(UTC) + hour).jobs) == [
        scheduled,
        ready,
    ]


@pytest.mark.parametrize(
    ("where", "refused"),
    [
        ({"limit": 0}, "limit=0"),
        ({"limit": 1001}, "limit=1001"),
        ({"states": "runing"}, 'Did you mean "running"'),
        ({"source": "nowhere"}, "'nowhere' is not a source"),
        ({"after": datetime(2030, 1, 1)}, "after"),
        ({"cursor": "x"}, "cursor"),
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(app: Leasehold, where: Any, refused: str) -> None:
    with pytest.raises(InvalidInput, match=refused):
        app.tenant("acme").jobs.list(**where)


def test_jobs_are_counted_up_to_a_cap(app: Leasehold) -> None:
    acme, definition = app.tenant("acme"), app.job(note)
    acme.enqueue_many(definition.bind(number) for number in range(4))
    assert acme.jobs.counts()[Status.QUEUED] == 4
    assert acme.jobs.counts(3)[Status.QUEUED] == 3


# ------------------------------------------------------------------------------------------- attempts and lines


async def test_attempts_have_the_try_that_they_were(app: Leasehold) -> None:
    @app.job(backoff=Steps(0), max_attempts=3)
    async def flaky(job: Job) -> None:
        if job.attempt == 1:
            raise Snooze(0)
        if job.tries == 1:
            raise ValueError("no jitter")

    async with app.open(worker=True):
        acme = app.tenant("acme")
        job = await ended(app, await acme.aenqueue(flaky))
        attempts = await acme.jobs.aattempts(job.id)
    assert [(each.status, each.tries) for each in attempts] == [
        (AttemptStatus.SNOOZED, 1),
        (AttemptStatus.FAILED, 1),
        (AttemptStatus.SUCCEEDED, 2),
    ]


async def run_one(app: Leasehold) -> JobRecord:
    definition = app.job(note)
    async with app.open(worker=True):
        return await ended(app, await app.tenant("acme").aenqueue(definition, 7))


async def test_lines_are_read_after_a_cursor(app: Leasehold) -> None:
    job = await run_one(app)
    page = await app.tenant("acme").jobs.alines(job.id)
    assert [(line.tries, line.text, line.kind) for line in page.lines] == [
        (1, "noting 7", LineKind.LOG),
        (1, "half of it", LineKind.PROGRESS),
        (1, "noted 7", LineKind.LOG),
    ]
    assert page.ended
    after = await app.tenant("acme").jobs.alines(job.id, after=page.next)
    assert (list(after.lines), after.next, after.ended) == ([], page.next, True)


async def test_pages_of_lines_are_complete_over_tries(app: Leasehold) -> None:
    @app.job(backoff=Steps(0), max_attempts=2)
    async def flaky(job: Job) -> None:
        for number in range(3):
            job.log(f"{job.tries}.{number}")
        if job.tries == 1:
            raise ValueError("no jitter")

    async with app.open(worker=True):
        acme = app.tenant("acme")
        job = await ended(app, await acme.aenqueue(flaky))
        found: list[str] = []
        cursor, over = None, False
        while not over:
            page = await reading.lines(app.store, acme.id, job.id, cursor, limit=2)
            found += [line.text for line in page.lines]
            cursor, over = page.next, page.ended
    assert found == ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]


@pytest.mark.parametrize("cursor", ["", "1", "-", "a-b", "1-", "1-²", "1-9999999999"])
def test_a_cursor_that_is_none_is_refused(app: Leasehold, cursor: str) -> None:
    placed = app.tenant("acme").enqueue(app.job(note), 1)
    with pytest.raises(InvalidInput, match="is not a cursor of log lines"):
        app.tenant("acme").jobs.lines(placed.id, after=cursor)


async def test_lines_are_followed_until_the_job_has_ended(app: Leasehold) -> None:
    said, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow(job: Job) -> None:
        job.log("first")
        said.set()
        await go_on.wait()
        job.log("last")

    found = []
    async with app.open(worker=True):
        acme = app.tenant("acme")
        placed = await acme.aenqueue(slow)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            async for line in acme.jobs.afollow(placed.id):
                found.append(line.text)
                assert said.is_set()
                go_on.set()
    assert found == ["first", "last"]


async def test_lines_are_followed_by_blocking_code(app: Leasehold) -> None:
    job = await run_one(app)
    followed = await asyncio.to_thread(lambda: list(app.tenant("acme").jobs.follow(job.id)))
    assert [line.text for line in followed] == ["noting 7", "half of it", "noted 7"]


async def test_progress_is_the_last_one_of_the_attempt(app: Leasehold) -> None:
    job = await run_one(app)
    progress = await app.tenant("acme").jobs.aprogress(job.id)
    assert progress is not None
    assert (progress.progress, progress.text, progress.tries) == (0.5, "half of it", 1)


def test_a_job_that_has_not_run_has_no_progress_and_no_lines(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.enqueue(app.job(note), 1)
    assert acme.jobs.progress(placed.id) is None
    page = acme.jobs.lines(placed.id)
    assert (list(page.lines), page.ended) == ([], False)
    assert acme.jobs.attempts(placed.id) == []


def test_blocking_code_waits_until_a_job_is_final(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.enqueue(app.job(note), 1)
    assert acme.jobs.wait_until_final(placed.id, 0) is None
    acme.cancel(placed.id)
    job = acme.jobs.wait_until_final(placed.id, PATIENCE)
    assert job is not None
    assert job.status is Status.CANCELED


# --------------------------------------------------------------------------------------------------------- explain


def test_a_job_is_explained(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.options(delay="1h").enqueue(app.job(note), 1)
    explanation = acme.explain(placed.id)
    assert [check.name for check in explanation.blocking] == ["due", "worker"]
    assert explanation.job.id == placed.id
    assert explanation.starts_at is None
    assert explanation.summary.startswith("it is due in ")


async def test_a_job_that_a_worker_serves_waits_for_its_limit(app: Leasehold) -> None:
    release = asyncio.Event()

    @app.job
    async def hold(job: Job) -> None:
        job.log("holding")
        await release.wait()

    async with app.open(worker=True):
        acme = app.tenant("acme")
        await app.store.limit(Scope(ScopeKind.TENANT, "acme"), Limits(max_running=1))
        first = await acme.aenqueue(hold)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await anext(acme.jobs.afollow(first.id))
        second = await acme.aenqueue(hold)
        (reason,) = (await acme.aexplain(second.id)).blocking
        checks = {check.name: check.state for check in (await acme.jobs.aexplain(second.id)).checks}
        release.set()
    assert (reason.name, reason.evidence["oldest_job"]) == ("tenant_limit", first.id)
    assert checks["worker"] is CheckState.OK
    assert checks["clock"] is CheckState.OK


@pytest.mark.parametrize("verb", ["get", "attempts", "lines", "progress", "explain"])
def test_a_job_of_another_tenant_is_unknown(app: Leasehold, verb: str) -> None:
    placed = app.tenant("acme").enqueue(app.job(note), 1)
    for job in (placed.id, UNKNOWN):
        with pytest.raises(UnknownJob, match=f'tenant "other" has no job {job}'):
            getattr(app.tenant("other").jobs, verb)(job)

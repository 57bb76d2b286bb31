"""Finishes: one bad element never blocks its batch, and a finish whose reply was lost is known to be ours."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.worker.far_worker import Seen, at_work, ended, enqueue
from tests.worker.shop import Shop, only

from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, JobId, LogLine
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import TenantJobs
from leasehold.store.reclaim import reclaim_orphans
from leasehold.worker import Job, RetryLater, Snooze


class Careless(RetryLater):
    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "later")
        self.delay = delay


class Drowsy(Snooze):
    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "later")
        self.delay = delay


class Delayless(RetryLater):
    def __init__(self) -> None:
        Exception.__init__(self, "later")


WRONG: list[Exception] = [
    *(kind(delay) for kind in (Careless, Drowsy) for delay in ("5m", 5, float("nan"), [], object())),
    Delayless(),
]


@pytest.mark.parametrize(
    "error", WRONG, ids=lambda error: f"{type(error).__name__} {getattr(error, 'delay', None)!r:.9}"
)
async def test_a_wrong_delay_fails_its_own_job_only(shop: Shop, error: Exception) -> None:
    async def handler(job: Job, payload: dict[str, Any]) -> None:
        if payload:
            raise error

    handlers = only(handler, max_attempts=2, backoff=Steps(0))
    await shop.store.sync_definitions(handlers.definitions)
    bad = await shop.enqueue(payload={"bad": True})
    good = await shop.enqueue_many(20)
    async with shop.working(handlers):
        assert {record.status for record in await shop.all_ended(good)} == {Status.SUCCEEDED}
        record = await shop.ended(bad)
    if isinstance(error, Delayless):
        assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "AttributeError")
    else:
        assert (record.status, record.last_error_code) == (Status.FAILED, "verdict_invalid")


async def test_a_verdict_that_cannot_be_written_fails_its_own_job_only(shop: Shop) -> None:
    """Two of thirty verdicts are such that the database refuses them; the others of their batches are written."""
    together = asyncio.Event()

    async def handler(job: Job, payload: dict[str, Any]) -> None:
        await together.wait()

    bad: set[JobId] = set()

    def spoil(original: Any) -> Any:
        async def finish(done: list[tuple[Claim, Verdict]]) -> frozenset[Claim]:
            spoilt = [(c, replace(v, error_code="a\0b") if _spoils(c, v, bad) else v) for c, v in done]
            return cast(frozenset[Claim], await original(spoilt))

        return finish

    shop.stores.step_in("finish", spoil)
    await shop.store.sync_definitions([Definition("report")])
    jobs = await shop.enqueue_many(30)
    bad |= {jobs[3], jobs[17]}
    async with shop.working(only(handler), slots=30) as worker:
        await eventually(lambda: _is(worker.running == 30), what="all to run")
        together.set()
        records = {record.id: record for record in await shop.all_ended(jobs)}
    assert {job for job, record in records.items() if record.status is not Status.SUCCEEDED} == bad
    for job in bad:
        assert (records[job].status, records[job].last_error_code) == (Status.FAILED, "verdict_invalid")
        assert "LH-1014" not in (records[job].last_error or "")
        assert "can't be written" in (records[job].last_error or "")
        assert await shop.statuses(job) == [AttemptStatus.FAILED]


def _spoils(claim: Claim, verdict: Verdict, bad: set[JobId]) -> bool:
    return claim.job in bad and verdict.status is Status.SUCCEEDED


async def _is(condition: bool) -> bool:
    return condition


async def test_a_line_that_cannot_be_written_is_left_out_alone(shop: Shop) -> None:
    def spoil(original: Any) -> Any:
        async def write(lines: list[tuple[Claim, LogLine]]) -> frozenset[Claim]:
            spoilt = [(c, replace(line, number=2**40) if line.text == "bad" else line) for c, line in lines]
            return cast(frozenset[Claim], await original(spoilt))

        return write

    async def handler(job: Job, payload: dict[str, Any]) -> None:
        for text in ("one", "bad", "three"):
            job.log(text)
        await asyncio.sleep(0)

    shop.stores.step_in("append_log", spoil)
    await shop.store.sync_definitions([Definition("report")])
    job = await shop.enqueue()
    async with shop.working(only(handler)):
        assert (await shop.ended(job)).status is Status.SUCCEEDED
    assert [line.text for line in await shop.lines(job)] == ["one", "three"]


async def test_a_result_with_the_text_of_an_escaped_nul_succeeds(shop: Shop) -> None:
    """Issue 13.12."""

    async def handler(job: Job, payload: dict[str, Any]) -> Any:
        return {"regex": "[\\u0000-\\u001f]", "again": ["\\\\u0000"]}

    await shop.store.sync_definitions([Definition("report")])
    job = await shop.enqueue()
    async with shop.working(only(handler)):
        record = await shop.ended(job)
    assert record.status is Status.SUCCEEDED
    assert record.result == {"regex": "[\\u0000-\\u001f]", "again": ["\\\\u0000"]}


@pytest.mark.parametrize("change", ["delete from leasehold.definition_versions where key = 'report' and version = 1"])
async def test_a_job_whose_definition_is_gone_fails_alone(shop: Shop, change: str) -> None:
    async def handler(job: Job, payload: dict[str, Any]) -> None: ...

    handlers = only(handler)
    handlers.add(Definition("other"))(handler)
    await shop.store.sync_definitions([Definition("report", priority=7)])
    job = await shop.enqueue()
    await shop.store.sync_definitions([*handlers.definitions])
    others = [await shop.enqueue(), await shop.enqueue("other")]
    await shop.observer.execute(change)
    async with shop.working(handlers):
        assert {record.status for record in await shop.all_ended(others)} == {Status.SUCCEEDED}
        record = await shop.ended(job)
    assert (record.status, record.last_error_code) == (Status.FAILED, "definition_unreadable")
    assert "version 1 of 'report' is not in the database any more" in (record.last_error or "")


async def test_claims_of_the_dead_without_a_definition_are_ended(shop: Shop) -> None:
    await shop.store.sync_definitions([Definition("report"), Definition("other")])
    jobs = [await shop.enqueue(max_attempts=1), await shop.enqueue("other", max_attempts=1)]
    for job in jobs:
        await shop.observer.execute(
            "update leasehold.jobs set status = 'running', ready = false, attempt = 1, started_at = queued_at,"
            " worker_id = gen_random_uuid() where id = $1",
            job,
        )
    await shop.observer.execute("delete from leasehold.definition_versions where key = 'report'")
    assert len(await reclaim_orphans(shop.store)) == 2
    assert {record.status for record in await shop.all_ended(jobs)} == {Status.DEAD_LETTER}


async def test_a_worker_starts_beside_a_definition_that_it_cannot_read(shop: Shop) -> None:
    async def handler(job: Job, payload: dict[str, Any]) -> None: ...

    await shop.store.sync_definitions([Definition("report"), Definition("newer", timeout=timedelta(hours=2))])
    await shop.observer.execute(
        "update leasehold.definition_versions set backoff = '{\"kind\": \"fibonacci\"}', retention = '7'"
        " where key = 'newer'"
    )
    job = await shop.enqueue()
    async with shop.working(only(handler)):
        assert (await shop.ended(job)).status is Status.SUCCEEDED


async def test_a_finish_whose_reply_was_lost_is_known_to_be_ours(
    acme: TenantJobs, proxy: Proxy, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(proxy.url, seen):
        proxy.swallow(b"by attempt 1")
        (record,) = await ended(acme, [await enqueue(acme)])
        # A job after it goes through the same finisher, which has settled the first by then.
        await ended(acme, [await enqueue(acme)])
    assert proxy.swallowed == 1
    assert (record.status, record.attempt, record.result) == (Status.SUCCEEDED, 1, "by attempt 1")
    assert len(seen.started) == 2
    assert "LH-4001" not in caplog.text

"""The log has a line for each failed attempt, and none for successes."""

import logging
from typing import Any

import pytest
from tests.conftest import eventually
from tests.tenant_kit import ACME
from tests.worker.shop import SHORT, Payload, Processes, Shop, only

from leasehold.model.backoff import Steps
from leasehold.model.job import JobId
from leasehold.store import Subscription, WorkerFacts
from leasehold.worker import Fail, Job


async def fails(job: Job, payload: Payload) -> None:
    raise Fail(payload["error"]) if payload.get("final") else ValueError(payload["error"])


PLACE = f"tests/worker/test_events_log.py:{fails.__code__.co_firstlineno + 1} in fails"


def about(job: JobId, log: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in log.records if job in record.getMessage()]


async def logged(shop: Shop, log: pytest.LogCaptureFixture, **payload: Any) -> tuple[JobId, list[tuple[int, str]]]:
    """Returns the log lines of a job until it has ended."""
    with log.at_level(logging.INFO, "leasehold.worker"):
        async with shop.working(only(fails, max_attempts=2, backoff=Steps(0.25))):
            job = await shop.enqueue(payload=payload)
            await shop.ended(job)
    return job, about(job, log)


async def test_a_failed_attempt_is_a_warning_and_a_dead_letter_an_error(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    job, said = await logged(shop, caplog, error="no such row")
    begin = f"job {job} of acme, report:"
    error = f"ValueError: no such row ({PLACE})"
    assert said == [
        (logging.WARNING, f"{begin} failed at try 1/2: {error}; again in 0.2 s"),
        (logging.ERROR, f"{begin} dead letter at try 2/2: {error}; not tried again"),
    ]


async def test_a_failed_job_is_an_error(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    job, said = await logged(shop, caplog, error="no use", final=True)
    text = f"job {job} of acme, report: failed at try 1/2: Fail: no use ({PLACE}); not tried again"
    assert said == [(logging.ERROR, text)]


async def test_however_long_or_wild_an_error_is_it_is_one_line(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    _, ((_, text),) = await logged(shop, caplog, error="two\nlines \x1b[2J" + "x" * 9_000, final=True)
    assert "two lines  [2Jxxx" in text
    assert text.isprintable()
    assert len(text) < 1_000


async def test_a_success_is_not_logged(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    with caplog.at_level(logging.DEBUG, "leasehold.worker"):
        async with shop.working(only(report)):
            job = await shop.enqueue()
            await shop.ended(job)
    assert about(job, caplog) == []


async def test_an_attempt_whose_worker_died_is_logged_by_who_found_it(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = only(fails, backoff=Steps(3600))
    await shop.store.sync_definitions(handlers.definitions)
    job = await shop.enqueue()
    dead = await shop.store.join(Subscription(("report",), (ACME,)), WorkerFacts("dead", 1), SHORT.busy)
    await shop.store.claim(dead, 1)

    async def found() -> bool:
        return bool(about(job, caplog))

    async with shop.working(handlers, leases=SHORT):
        await eventually(found, what="a word about the dead worker's job")
    ((level, text),) = about(job, caplog)
    assert level == logging.WARNING
    assert f"lease_lost: worker {dead.worker} was not heard of" in text


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["for people", "as events"])
async def test_a_worker_process_says_it_once(shop: Shop, processes: Processes, options: tuple[str, ...]) -> None:
    """On stderr for people; with --json, the event on stdout has it. The test sees both streams as one."""
    worker = processes.worker(*options)
    await worker.says("worker.joined" if options else "registered as version 1")
    job = await shop.enqueue("fail", payload=processes.payload)
    await shop.ended(job)
    await worker.says("job.ended" if options else f"job {job} of acme, fail: failed at try 1/")
    assert worker.said.count("broken on purpose") == 1

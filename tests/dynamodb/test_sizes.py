"""Items of 400 KB at most: results and details that don't fit beside the payload are kept with the attempt."""

from dataclasses import replace

import pytest
from tests.store.bench import Bench

from leasehold.errors import PayloadInvalid
from leasehold.model.job import LogLine
from leasehold.model.outcome import Raised, Trace, decide
from leasehold.model.status import AttemptStatus, Status

LARGE = {"text": "x" * 262_000}
RESULT = f'"{"y" * 262_000}"'


async def test_a_large_result_beside_a_large_payload_is_kept(bench: Bench) -> None:
    claim = await bench.running(payload=LARGE)
    await bench.succeed(claim, RESULT)
    job = await bench.job(claim.job)
    assert (job.status, job.payload, len(job.result)) == (Status.SUCCEEDED, LARGE, 262_000)
    assert await bench.history(claim.job) == [(1, AttemptStatus.SUCCEEDED)]
    assert len(await bench.jobs.get_many([claim.job])) == 1
    assert await bench.jobs.wait_until_final(claim.job, 0) == job


async def test_a_job_with_a_large_result_can_be_retried(bench: Bench) -> None:
    claim = await bench.running(payload=LARGE)
    await bench.succeed(claim, RESULT)
    await bench.jobs.retry({claim.job: 1})
    assert (await bench.job(claim.job)).result is None
    await bench.succeed(await bench.claim_one(), '"short"')
    assert (await bench.job(claim.job)).result == "short"
    assert await bench.history(claim.job) == [(1, AttemptStatus.SUCCEEDED), (2, AttemptStatus.SUCCEEDED)]


async def test_an_error_with_a_long_tail_is_kept(bench: Bench) -> None:
    claim = await bench.running(payload=LARGE, max_attempts=1)
    outcome = Raised("Unlucky", "ü" * 10_000, trace=Trace("app.py:1 in f", "t" * 8_000))
    verdict = replace(decide(outcome, claim, 0), details=f'{{"stdout_tail": "{"z" * 64_000}"}}')
    assert await bench.store.finish([(claim, verdict)]) == frozenset()
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert (attempt.error, len(attempt.details["stdout_tail"])) == ("ü" * 10_000, 64_000)


async def test_a_payload_above_the_limit_is_refused_with_its_size(bench: Bench) -> None:
    with pytest.raises(PayloadInvalid, match=r"payload: 3\d\d,\d{3} bytes of JSON"):
        await bench.enqueue(payload={"text": "x" * 390_000})


async def test_a_hundred_large_jobs_of_one_call_are_enqueued(bench: Bench) -> None:
    """Together they are larger than a transaction may be."""
    jobs = await bench.enqueue_many(20, payload=LARGE)
    assert len(await bench.jobs.get_many(jobs)) == 20


async def test_long_lines_of_one_call_are_all_kept(bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number, "ü" * 10_000)) for number in range(1, 41)])
    assert [line.number for line in await bench.lines(claim.job)] == list(range(1, 41))

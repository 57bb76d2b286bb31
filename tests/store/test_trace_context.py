"""The trace context of a job: stored with it, brought by its claims, and kept by retries."""

from dataclasses import replace

import pytest
from tests.store.bench import Bench, keyed
from tests.store.event_kit import rule
from tests.tenant_kit import ACME, HOUR

from leasehold.model.event import NewEvent
from leasehold.model.job import Claim, JobId, NewJob
from leasehold.model.outcome import LeaseLost, Outcome, Raised, Released, Snoozed, decide
from leasehold.model.trace_context import with_span

REQUEST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIRST = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
SECOND = "00-0af7651916cd43dd8448eb211c80319c-53ce929d0e0e4736-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
STATE = "vendor=a b,other=1"

FAILED = Raised("ValueError", "no luck")


async def end_traced(bench: Bench, claim: Claim, outcome: Outcome, span: str) -> None:
    """Ends an attempt as a worker that traces does: the details begin with its span."""
    verdict = decide(outcome, claim, 0.5)
    traced = replace(verdict, details=with_span(verdict.details, span))
    assert await bench.store.finish([(claim, traced)]) == frozenset()


async def test_a_claim_brings_the_context_of_the_enqueue(bench: Bench) -> None:
    await bench.enqueue(trace_context=f"{REQUEST} - {STATE}")
    assert (await bench.claim_one()).trace_context == f"{REQUEST} - {STATE}"


async def test_a_job_that_is_not_traced_has_no_context(bench: Bench) -> None:
    await bench.enqueue()
    claim = await bench.claim_one()
    assert claim.trace_context is None
    await bench.fail(claim)
    await bench.move_clock(HOUR)
    assert (await bench.claim_one()).trace_context is None


async def test_every_job_of_a_call_has_its_own_context(bench: Bench) -> None:
    contexts = {f"{number}": context for number, context in enumerate((REQUEST, OTHER, None))}
    jobs = [NewJob(definition="report", payload={"n": n}, trace_context=each) for n, each in contexts.items()]
    await bench.jobs.enqueue(jobs)
    claims = await bench.claim()
    assert {claim.payload.split('"')[3]: claim.trace_context for claim in claims} == contexts


async def test_alike_jobs_of_a_call_share_their_context(bench: Bench) -> None:
    await bench.jobs.enqueue([NewJob(definition="report", trace_context=REQUEST) for _ in range(3)])
    assert [claim.trace_context for claim in await bench.claim()] == [REQUEST] * 3


async def test_the_context_is_no_part_of_a_dedupe_key(bench: Bench) -> None:
    first = NewJob(definition="report", dedupe=keyed(), trace_context=REQUEST)
    (created,) = await bench.jobs.enqueue([first])
    (held,) = await bench.jobs.enqueue([replace(first, trace_context=OTHER)])
    assert (held.id, held.created) == (created.id, False)
    assert (await bench.claim_one()).trace_context == REQUEST


async def test_a_repeated_id_is_the_same_request_in_another_trace(bench: Bench) -> None:
    job = JobId("01890a5d-ac96-774b-bcce-b302099a8057")
    first = NewJob(definition="report", id=job, trace_context=REQUEST)
    await bench.jobs.enqueue([first])
    (again,) = await bench.jobs.enqueue([replace(first, trace_context=OTHER)])
    assert (again.id, again.created) == (job, False)


@pytest.mark.parametrize(
    "outcome", [FAILED, Snoozed(HOUR), Released(), LeaseLost()], ids=lambda each: type(each).__name__
)
async def test_the_attempt_after_one_that_was_traced_knows_its_span(bench: Bench, outcome: Outcome) -> None:
    await bench.enqueue(trace_context=f"{REQUEST} - {STATE}")
    await end_traced(bench, await bench.claim_one(), outcome, FIRST)
    await bench.move_clock(2 * HOUR)
    assert (await bench.claim_one()).trace_context == f"{REQUEST} {FIRST} {STATE}"


async def test_each_attempt_follows_the_one_before(bench: Bench) -> None:
    await bench.enqueue(trace_context=REQUEST)
    for span, before in ((FIRST, REQUEST), (SECOND, f"{REQUEST} {FIRST}")):
        claim = await bench.claim_one()
        assert claim.trace_context == before
        await end_traced(bench, claim, FAILED, span)
        await bench.move_clock(HOUR)
    assert (await bench.claim_one()).trace_context == f"{REQUEST} {SECOND}"


async def test_a_job_without_a_context_takes_up_the_trace_of_its_attempt(bench: Bench) -> None:
    await bench.enqueue()
    await end_traced(bench, await bench.claim_one(), FAILED, OTHER)
    await bench.move_clock(HOUR)
    assert (await bench.claim_one()).trace_context == OTHER


async def test_an_attempt_that_was_not_traced_keeps_the_context(bench: Bench) -> None:
    await bench.enqueue(trace_context=f"{REQUEST} {FIRST}")
    await bench.fail(await bench.claim_one())
    await bench.move_clock(HOUR)
    assert (await bench.claim_one()).trace_context == f"{REQUEST} {FIRST}"


async def test_a_span_that_is_not_one_is_left_out(bench: Bench) -> None:
    await bench.enqueue(trace_context=REQUEST)
    await end_traced(bench, await bench.claim_one(), FAILED, "not a span")
    await bench.move_clock(HOUR)
    assert (await bench.claim_one()).trace_context == REQUEST


async def test_a_manual_retry_follows_the_last_attempt(bench: Bench) -> None:
    job = await bench.enqueue(trace_context=f"{REQUEST} - {STATE}", max_attempts=1)
    await end_traced(bench, await bench.claim_one(), FAILED, FIRST)
    await bench.jobs.retry({job: 1})
    assert (await bench.claim_one()).trace_context == f"{REQUEST} {FIRST} {STATE}"


async def test_a_manual_retry_of_a_success_keeps_the_context(bench: Bench) -> None:
    job = await bench.enqueue(trace_context=REQUEST)
    await bench.succeed(await bench.claim_one())
    await bench.jobs.retry({job: 1})
    assert (await bench.claim_one()).trace_context == REQUEST


async def test_a_retry_of_a_canceled_job_keeps_the_context(bench: Bench) -> None:
    job = await bench.enqueue(trace_context=REQUEST)
    await bench.jobs.cancel([job])
    await bench.jobs.retry({job: 0})
    assert (await bench.claim_one()).trace_context == REQUEST


async def test_the_jobs_of_an_event_have_its_context(bench: Bench) -> None:
    await bench.store.triggers(ACME).add(rule())
    await bench.store.events(ACME).emit(NewEvent("provider.folder.updated", trace_context=REQUEST))
    assert (await bench.claim_one()).trace_context == REQUEST

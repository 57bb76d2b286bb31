"""A claim of the past changes nothing, even under its own worker's name and even if it comes at the worst moment."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import blocked
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import HOUR

from leasehold.model.job import Claim, LogLine
from leasehold.model.outcome import LeaseLost, Outcome, Raised, Released, Succeeded, decide
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Registration, Store

Twice = tuple[Registration, Claim, Claim]


async def given_back(bench: Bench, registration: Registration, claim: Claim) -> None:
    await bench.finish(claim, Released())


async def retried(bench: Bench, registration: Registration, claim: Claim) -> None:
    await bench.finish(claim, Raised("Unlucky", "no jitter"))
    await bench.move_clock(HOUR)


async def expired(bench: Bench, registration: Registration, claim: Claim) -> None:
    """Another worker ended the claim as lost, though its own worker came back in time to keep the registration."""
    await bench.finish(claim, LeaseLost())
    await bench.move_clock(HOUR)
    assert (await bench.store.renew(registration, [], 365 * 24 * HOUR)).alive


WAYS = [given_back, retried, expired]


@pytest.fixture(params=WAYS, ids=[way.__name__ for way in WAYS])
async def twice(bench: Bench, request: pytest.FixtureRequest) -> Twice:
    """One registration has claimed one job twice: attempt 1 ended in some way, attempt 2 runs."""
    way: Callable[[Bench, Registration, Claim], Awaitable[None]] = request.param
    registration = await bench.worker()
    stale = await bench.running()
    await way(bench, registration, stale)
    live = await bench.claim_one()
    assert (live.job, live.worker, live.attempt) == (stale.job, stale.worker, 2)
    return registration, stale, live


@pytest.mark.parametrize("outcome", [Succeeded(), Raised("Stale", "stale"), Released()], ids=["end", "retry", "back"])
async def test_a_stale_finish_of_the_same_worker_is_refused(bench: Bench, twice: Twice, outcome: Outcome) -> None:
    _, stale, live = twice
    assert await bench.finish_all([(stale, outcome)]) == {stale}
    assert await bench.status(live.job) is Status.RUNNING
    await bench.succeed(live)
    assert (await bench.history(live.job))[-1] == (2, AttemptStatus.SUCCEEDED)


async def test_a_batch_refuses_stale_finishes_and_writes_live_ones(bench: Bench, twice: Twice) -> None:
    _, stale, live = twice
    assert await bench.finish_all([(stale, Succeeded('"stale"')), (live, Succeeded('"live"'))]) == {stale}
    assert (await bench.job(live.job)).result == "live"


async def test_a_heartbeat_tells_stale_claims_from_live_ones(bench: Bench, twice: Twice) -> None:
    registration, stale, live = twice
    renewal = await bench.store.renew(registration, [stale, live], HOUR)
    assert (renewal.alive, renewal.lost) == (True, frozenset({stale}))


async def test_a_stale_claims_lines_are_refused_and_the_live_ones_are_kept(bench: Bench, twice: Twice) -> None:
    _, stale, live = twice
    refused = await bench.store.append_log([(stale, LogLine(1, "a ghost")), (live, LogLine(1, "alive"))])
    assert refused == {stale}
    assert (await bench.texts(stale), await bench.texts(live)) == ([], ["alive"])


async def test_a_cancel_request_is_for_the_live_claim_only(bench: Bench, twice: Twice) -> None:
    registration, stale, live = twice
    await bench.jobs.cancel([live.job])
    assert (await bench.store.renew(registration, [stale, live], HOUR)).cancels == {live}


async def test_an_evicted_worker_learns_that_its_claims_are_lost(bench: Bench, second_store: Store) -> None:
    registration = await bench.join(lease=LEASE)
    stale = await bench.running(registration=registration)
    await bench.move_clock(2 * LEASE)
    (orphan,) = await second_store.evict(10)
    await bench.finish(orphan, Released())
    live = await bench.claim_one()
    renewal = await bench.store.renew(registration, [stale], LEASE)
    assert (renewal.alive, renewal.lost) == (False, frozenset({stale}))
    assert live.worker != stale.worker


@pytest.mark.parametrize("outcome", [Succeeded(), Raised("Unlucky", "no jitter")], ids=["end", "retry"])
async def test_a_finish_that_waits_for_a_change_beside_its_fence_is_written(
    bench: Bench, observer: Raw, second_store: Store, outcome: Outcome
) -> None:
    """Someone begins to await the job at that moment: a new version of its row, but the same claim."""
    claim = await bench.running()
    async with observer.transaction():
        await observer.execute("update leasehold.jobs set awaited = true")
        finishing = asyncio.create_task(second_store.finish([(claim, decide(outcome, claim, jitter=0))]))
        await blocked(observer)
    assert await finishing == frozenset()
    assert (await bench.status(claim.job)) is not Status.RUNNING


async def test_a_retry_behind_a_cancel_request_ends_as_canceled(
    bench: Bench, observer: Raw, second_store: Store
) -> None:
    claim = await bench.running()
    async with observer.transaction():
        await observer.execute("update leasehold.jobs set cancel_requested_at = leasehold.clock()")
        verdict = decide(Raised("Unlucky", "no jitter"), claim, jitter=0)
        finishing = asyncio.create_task(second_store.finish([(claim, verdict)]))
        await blocked(observer)
    assert await finishing == frozenset()
    assert await bench.status(claim.job) is Status.CANCELED


@pytest.mark.parametrize("outcome", [Succeeded(), Raised("Stale", "stale")], ids=["end", "retry"])
async def test_a_finish_behind_the_next_attempts_claim_is_refused(
    bench: Bench, observer: Raw, second_store: Store, outcome: Outcome
) -> None:
    """Its snapshot shows the job as its own; when it gets to the row, the same worker's next attempt runs."""
    stale = await bench.running()
    async with observer.transaction():
        await observer.execute("update leasehold.jobs set attempt = attempt + 1")
        finishing = asyncio.create_task(second_store.finish([(stale, decide(outcome, stale, jitter=0))]))
        await blocked(observer)
    assert await finishing == {stale}
    assert (await bench.job(stale.job)).status is Status.RUNNING
    assert await bench.history(stale.job) == [(2, AttemptStatus.RUNNING)]

"""Several processes claim at the same moment: no job is handed out twice, and none is passed over for good."""

from collections.abc import Awaitable, Callable
from functools import partial

from tests.conftest import Raw
from tests.postgres.race_tools import Gate, at_once, no_job_twice, task
from tests.store.bench import Bench
from tests.tenant_kit import ACME

from leasehold.model.status import Status
from leasehold.store import CancelAnswer, Store

OpenStores = Callable[[int], Awaitable[list[Store]]]


async def test_two_stores_that_claim_at_once_never_share_a_job(bench: Bench, second_store: Store) -> None:
    mine, other = await bench.join(), await bench.join(store=second_store)
    for _ in range(40):
        jobs = await bench.enqueue_many(8)
        answers = await at_once(partial(bench.store.claim, mine, 5), partial(second_store.claim, other, 5))
        claims = [claim for answer in answers for claim in answer.claims] + await bench.claim(8, mine)
        assert no_job_twice(claim.job for claim in claims)
        assert {claim.job for claim in claims} == set(jobs)
        for claim in claims:
            await bench.succeed(claim)


async def test_one_of_six_stores_gets_the_job(bench: Bench, open_stores: OpenStores) -> None:
    stores = await open_stores(6)
    registrations = [await bench.join(store=store) for store in stores]
    for _ in range(30):
        job = await bench.enqueue()
        answers = await at_once(
            *(partial(s.claim, registration, 1) for s, registration in zip(stores, registrations, strict=True))
        )
        (claim,) = [claim for answer in answers for claim in answer.claims]
        assert claim.job == job
        await bench.succeed(claim)


async def test_a_claim_whose_only_job_vanished_is_told_to_ask_again(bench: Bench, gate: Gate) -> None:
    """Its snapshot shows the job as ready, though it was canceled by now: contested, not empty."""
    job, registration = await bench.enqueue(), await bench.worker()
    await gate.close("fleet/claim_next_tenants")
    async with task(bench.store.claim(registration, 1)) as claiming:
        await gate.holds(1)
        assert await bench.jobs.cancel([job]) == {job: CancelAnswer.CANCELED}
        await gate.open()
        answer = await claiming
    assert (list(answer.claims), answer.more) == ([], True)
    assert await bench.status(job) is Status.CANCELED


async def test_a_job_changed_during_a_claim_is_claimed_next_time(bench: Bench, observer: Raw, gate: Gate) -> None:
    """Between the claim's snapshot and its lock someone begins to await the job: a new version of its row."""
    job, registration = await bench.enqueue(), await bench.worker()
    await gate.close("fleet/claim_next_tenants")
    async with task(bench.store.claim(registration, 1)) as claiming:
        await gate.holds(1)
        await observer.execute("update leasehold.jobs set awaited = true")
        await gate.open()
        answer = await claiming
    assert answer.claims or answer.more
    assert [claim.job for claim in [*answer.claims, *await bench.claim(1, registration)]] == [job]


async def test_a_claim_whose_first_job_is_touched_brings_the_others(bench: Bench, observer: Raw, gate: Gate) -> None:
    """The facts about a look come with the first row returned, even if another row was to be the first."""
    touched, other = await bench.enqueue(), await bench.enqueue()
    registration = await bench.worker()
    await gate.close("fleet/claim_next_tenants")
    async with task(bench.store.claim(registration, 2)) as claiming:
        await gate.holds(1)
        await observer.execute("update leasehold.jobs set awaited = true where id = $1", touched)
        await gate.open()
        answer = await claiming
    claims = [*answer.claims, *await bench.claim(2, registration)]
    assert {claim.job for claim in claims} == {touched, other}


async def test_a_claim_that_dies_before_it_commits_leaves_the_job_to_others(bench: Bench, observer: Raw) -> None:
    job = await bench.enqueue()
    transaction = observer.transaction()
    await transaction.start()
    await observer.execute("select from leasehold.jobs where tenant_id = $1 for update", ACME)
    meanwhile = await bench.store.claim(await bench.worker(), 1)
    assert (list(meanwhile.claims), meanwhile.more) == ([], True)
    await transaction.rollback()
    assert await bench.claimed_jobs() == [job]

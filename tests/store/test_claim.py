"""Claims: which worker gets which job, in which order, and what a claim carries."""

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from tests.store.bench import LEASE, REPORT, Bench, EngineUnderTest
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.errors import RegistrationLost
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob, TenantId, tenant_id
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Store


async def test_a_claim_carries_all_that_running_needs(bench: Bench) -> None:
    registration = await bench.worker()
    job = await bench.enqueue(payload={"month": 3}, correlation_id="request-1", max_attempts=7)
    claim = await bench.claim_one()
    assert (claim.tenant, claim.job, claim.attempt, claim.worker) == (ACME, job, 1, registration.worker)
    assert (claim.definition, claim.version, claim.max_attempts) == (REPORT, 1, 7)
    assert (claim.free_attempts, claim.tries) == (0, 1)
    assert orjson.loads(claim.payload) == {"month": 3}
    assert (claim.correlation_id, claim.cancel_requested, claim.overdue) == ("request-1", False, False)


async def test_a_claimed_job_runs_under_its_worker(bench: Bench) -> None:
    claim = await bench.running()
    job = await bench.job(claim.job)
    assert (job.status, job.attempt, job.worker) == (Status.RUNNING, 1, claim.worker)
    assert (job.started_at, job.queued_at) == (claim.started_at, claim.queued_at)
    assert await bench.history(claim.job) == [(1, AttemptStatus.RUNNING)]


async def test_a_running_jobs_lease_is_its_workers(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=HOUR))
    job = await bench.job(claim.job)
    assert job.lease_expires_at is not None
    assert job.started_at is not None
    assert timedelta(minutes=59) < job.lease_expires_at - job.started_at <= HOUR


async def test_an_empty_queue_has_nothing_to_claim(bench: Bench) -> None:
    assert await bench.claim() == []


async def test_the_limit_is_kept_and_more_is_said(bench: Bench) -> None:
    await bench.enqueue_many(5)
    claimed = await bench.store.claim(await bench.worker(), 3)
    assert (len(claimed.claims), claimed.more) == (3, True)


async def test_a_claimed_job_is_not_claimed_again(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await bench.claimed_jobs() == [job]
    assert await bench.claim() == []
    assert await bench.claim(registration=await bench.join()) == []


async def test_the_older_job_comes_first(bench: Bench) -> None:
    jobs = [await bench.enqueue() for _ in range(5)]
    assert [await bench.claimed_jobs(1) for _ in jobs] == [[job] for job in jobs]


async def test_a_batch_is_claimed_in_the_order_it_was_given(bench: Bench) -> None:
    jobs = await bench.enqueue_many(20)
    assert await bench.claimed_jobs(20) == jobs


@pytest.mark.abilities("priorities")
async def test_the_lower_priority_number_comes_first_and_then_age(bench: Bench) -> None:
    late = await bench.enqueue(priority=200)
    usual = [await bench.enqueue(), await bench.enqueue()]
    urgent = [await bench.enqueue(priority=-5), await bench.enqueue(priority=-5)]
    assert await bench.claimed_jobs() == [*urgent, *usual, late]


@pytest.mark.abilities("priorities")
async def test_an_urgent_job_is_not_overlooked_after_others_were_claimed(bench: Bench) -> None:
    await bench.enqueue_many(10)
    await bench.claim(5)
    urgent = await bench.enqueue(priority=1)
    assert await bench.claimed_jobs(1) == [urgent]


@pytest.mark.abilities("priorities")
async def test_the_hundredth_claim_is_as_complete_and_in_order_as_the_first(bench: Bench) -> None:
    """Positions of earlier claims must not hide a job of a priority that the store has not seen yet."""
    for round_ in range(100):
        usual = await bench.enqueue(priority=100)
        urgent = await bench.enqueue(priority=99 - round_)
        claimed = await bench.store.claim(await bench.worker(), 2)
        assert [claim.job for claim in claimed.claims] == [urgent, usual], round_


@pytest.mark.abilities("priorities")
async def test_priority_holds_across_one_tenants_definitions(bench: Bench) -> None:
    await bench.enqueue_many(3, "report", priority=100)
    urgent = await bench.enqueue_many(2, "email", priority=50)
    assert await bench.claimed_jobs(2) == urgent


async def test_eight_workers_at_once_never_get_the_same_job(bench: Bench, stores: list[Store]) -> None:
    jobs = await bench.enqueue_many(200)
    registrations = [(store, await bench.join(store=store)) for store in stores * 2]
    rounds = await asyncio.gather(*(bench.claim(25, registration, store) for store, registration in registrations))
    claimed = [claim.job for claims in rounds for claim in claims] + await bench.claimed_jobs(200)
    assert sorted(claimed) == sorted(jobs)


async def test_a_worker_gets_only_definitions_that_it_serves(bench: Bench) -> None:
    await bench.enqueue("report")
    email = await bench.enqueue("email")
    assert await bench.claimed_jobs(registration=await bench.join("email")) == [email]


async def test_a_worker_gets_only_tenants_that_it_serves(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    await acme.enqueue()
    job = await other.enqueue()
    assert await other.claimed_jobs() == [job]


async def test_a_worker_for_all_tenants_gets_a_tenant_that_never_was_before(engine: EngineUnderTest) -> None:
    """The bystander has none of these, so that a worker for everyone can do it no harm."""
    await engine.store.sync_definitions([REPORT, Definition("rare")])
    acme, newcomer = Bench(engine), Bench(engine, tenant_id("newcomer"))
    registration = await acme.join("rare", tenants=None)
    jobs = [await acme.enqueue("rare"), await newcomer.enqueue("rare")]
    assert sorted(await acme.claimed_jobs(registration=registration)) == sorted(jobs)


async def test_a_definition_registered_after_the_worker_joined_is_served(bench: Bench) -> None:
    registration = await bench.join("later")
    assert await bench.claim(registration=registration) == []
    await bench.store.sync_definitions([Definition("later")])
    job = await bench.enqueue("later")
    assert await bench.claimed_jobs(registration=registration) == [job]


async def test_a_future_job_is_claimed_when_it_is_due_and_not_before(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    await bench.move_clock(timedelta(minutes=59))
    assert await bench.claim() == []
    await bench.move_clock(timedelta(minutes=1))
    assert await bench.claimed_jobs() == [job]


async def test_a_job_that_came_due_brings_no_later_one_with_it(bench: Bench) -> None:
    sooner, later = await bench.enqueue(delay=HOUR), await bench.enqueue(delay=2 * HOUR)
    await bench.move_clock(HOUR)
    assert await bench.claimed_jobs() == [sooner]
    assert not (await bench.job(later)).due


async def test_a_claim_says_how_long_it_is_until_the_next_job_is_due(bench: Bench) -> None:
    await bench.enqueue(delay=2 * HOUR)
    await bench.enqueue(delay=HOUR)
    next_due = (await bench.store.claim(await bench.worker(), 10)).next_due
    assert next_due is not None
    assert timedelta(minutes=59) < next_due <= HOUR


async def test_the_next_due_job_is_one_that_the_worker_serves(bench: Bench) -> None:
    await bench.enqueue("report", delay=HOUR)
    assert (await bench.store.claim(await bench.join("email"), 10)).next_due is None


async def test_a_job_that_came_due_comes_after_older_ready_jobs(bench: Bench) -> None:
    future = await bench.enqueue(delay=HOUR)
    ready = await bench.enqueue_many(3)
    await bench.move_clock(HOUR)
    assert await bench.claimed_jobs() == [*ready, future]


@pytest.mark.abilities("priorities")
async def test_a_job_that_came_due_keeps_its_priority(bench: Bench) -> None:
    future = await bench.enqueue(delay=HOUR, priority=1)
    ready = await bench.enqueue()
    await bench.move_clock(HOUR)
    assert await bench.claimed_jobs() == [future, ready]


async def test_a_job_past_its_deadline_is_claimed_as_overdue(bench: Bench) -> None:
    await bench.enqueue(deadline=datetime.now(UTC) + HOUR)
    await bench.move_clock(2 * HOUR)
    assert (await bench.claim_one()).overdue


async def test_a_job_before_its_deadline_is_not_overdue(bench: Bench) -> None:
    assert not (await bench.running(deadline=datetime.now(UTC) + HOUR)).overdue


async def test_an_evicted_worker_gets_nothing(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    job = await bench.enqueue()
    await bench.move_clock(2 * LEASE)
    await bench.store.evict(10)
    with pytest.raises(RegistrationLost):
        await bench.store.claim(registration, 1)
    assert await bench.status(job) is Status.QUEUED


async def test_a_worker_whose_lease_is_over_gets_nothing(bench: Bench) -> None:
    """It is not evicted yet. The lock of its claim would be over from the start."""
    registration = await bench.join(lease=LEASE)
    job = await bench.enqueue()
    await bench.move_clock(2 * LEASE)
    with pytest.raises(RegistrationLost):
        await bench.store.claim(registration, 1)
    assert await bench.status(job) is Status.QUEUED


async def test_a_worker_that_left_gets_nothing(bench: Bench) -> None:
    registration = await bench.join()
    job = await bench.enqueue()
    await bench.store.leave(registration)
    with pytest.raises(RegistrationLost):
        await bench.store.claim(registration, 1)
    assert await bench.status(job) is Status.QUEUED


async def test_the_claims_of_a_worker_can_be_listed(bench: Bench) -> None:
    running = await bench.running()
    ended = await bench.running()
    await bench.succeed(ended)
    await bench.running(registration=await bench.join())
    assert list(await bench.store.held(await bench.worker())) == [running]


async def test_a_held_claim_carries_all_that_running_needs(bench: Bench) -> None:
    claim = await bench.running(payload={"month": 3}, correlation_id="request-1")
    (held,) = await bench.store.held(await bench.worker())
    assert (held.definition, held.version, held.max_attempts) == (claim.definition, claim.version, claim.max_attempts)
    assert (orjson.loads(held.payload), held.correlation_id) == ({"month": 3}, "request-1")


BIG = tenant_id("big")
SMALL = tuple(tenant_id(f"small-{number}") for number in range(9))


async def a_big_tenant_and_small_ones(bench: Bench) -> None:
    """The big one was first, and its jobs are as urgent as all others."""
    await bench.store.tenant(BIG).enqueue([NewJob(definition="report")] * 500)
    for tenant in SMALL:
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")] * 2)


async def test_each_tenant_has_a_turn_in_a_batch_of_their_number(bench: Bench) -> None:
    await a_big_tenant_and_small_ones(bench)
    registration = await bench.join("report", tenants=(BIG, *SMALL))
    claims = await bench.claim(1 + len(SMALL), registration)
    assert {claim.tenant for claim in claims} == {BIG, *SMALL}


async def test_tenants_take_turns_in_claims_of_one_job(bench: Bench) -> None:
    await a_big_tenant_and_small_ones(bench)
    registration = await bench.join("report", tenants=(BIG, *SMALL))
    served: list[TenantId] = [(await bench.claim_one(registration)).tenant for _ in range(2 * (1 + len(SMALL)))]
    assert set(SMALL) <= set(served)


async def test_a_tenant_alone_gets_the_whole_batch(bench: Bench) -> None:
    await a_big_tenant_and_small_ones(bench)
    registration = await bench.join("report", tenants=(BIG,))
    assert len(await bench.claim(100, registration)) == 100


async def test_unused_shares_of_small_tenants_go_to_the_big_one(bench: Bench) -> None:
    await a_big_tenant_and_small_ones(bench)
    registration = await bench.join("report", tenants=(BIG, *SMALL))
    claims = await bench.claim(100, registration)
    assert sum(claim.tenant in SMALL for claim in claims) == 2 * len(SMALL)
    assert sum(claim.tenant == BIG for claim in claims) == 100 - 2 * len(SMALL)

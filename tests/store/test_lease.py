"""Leases: renewed together, lost together. Renew, leave, evict, and the list of workers."""

from datetime import timedelta

import orjson
import pytest
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, HOUR, SECOND

from leasehold.model.job import WorkerId
from leasehold.model.outcome import LeaseLost, Succeeded
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import Registration, Store, Subscription, WorkerFacts, WorkerRecord

ALMOST = LEASE - 5 * SECOND


async def test_a_renewed_lease_holds_from_then_on(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    claim = await bench.running(registration=registration)
    await bench.move_clock(ALMOST)
    assert (await bench.store.renew(registration, [claim], LEASE)).alive
    await bench.move_clock(ALMOST)
    assert list(await bench.store.evict(10)) == []


async def test_renewing_loses_nothing_that_is_held(bench: Bench) -> None:
    registration = await bench.worker()
    held = [await bench.running(), await bench.running()]
    renewal = await bench.store.renew(registration, held, LEASE)
    assert (renewal.alive, renewal.lost, renewal.cancels) == (True, frozenset(), frozenset())
    assert not renewal.orphans


async def test_renewing_sets_the_lease_that_was_asked_for(bench: Bench) -> None:
    registration = await bench.join(lease=HOUR)
    claim = await bench.running(registration=registration)
    await bench.store.renew(registration, [claim], LEASE)
    await bench.move_clock(2 * LEASE)
    assert list(await bench.store.evict(10)) == [claim]


async def test_renewing_tells_which_jobs_shall_be_canceled(bench: Bench) -> None:
    registration = await bench.worker()
    kept, canceled = await bench.running(), await bench.running()
    await bench.jobs.cancel([canceled.job])
    assert (await bench.store.renew(registration, [kept, canceled], LEASE)).cancels == {canceled}


async def test_renewing_tells_no_worker_of_another_ones_cancels(bench: Bench) -> None:
    held = await bench.running(registration=await bench.join())
    await bench.jobs.cancel([held.job])
    assert (await bench.store.renew(await bench.worker(), [], LEASE)).cancels == frozenset()


async def test_renewing_tells_that_another_workers_claim_is_lost(bench: Bench) -> None:
    """It holds, and its cancel is for the worker that holds it."""
    held = await bench.running(registration=await bench.join())
    await bench.jobs.cancel([held.job])
    renewal = await bench.store.renew(await bench.worker(), [held], LEASE)
    assert (renewal.lost, renewal.cancels) == (frozenset({held}), frozenset())


async def test_renewing_tells_which_claims_are_no_longer_held(bench: Bench) -> None:
    registration = await bench.worker()
    held, gone = await bench.running(), await bench.running()
    await bench.succeed(gone)
    assert (await bench.store.renew(registration, [held, gone], LEASE)).lost == {gone}


async def test_a_renewal_tells_an_old_attempt_from_the_new_one(bench: Bench) -> None:
    registration = await bench.worker()
    old = await bench.running()
    await bench.fail(old)
    await bench.move_clock(10 * SECOND)
    new = await bench.claim_one()
    assert (await bench.store.renew(registration, [old, new], LEASE)).lost == {old}


async def test_renewing_tells_of_an_old_claim_that_was_not_named(bench: Bench) -> None:
    """Its answer was lost: the worker does not know that it holds this claim."""
    registration = await bench.worker()
    known, unknown = await bench.running(), await bench.running()
    await bench.move_clock(2 * LEASE)
    assert (await bench.store.renew(registration, [known], LEASE)).strays
    assert not (await bench.store.renew(registration, [known, unknown], LEASE)).strays


async def test_renewing_tells_of_no_claim_younger_than_a_lease(bench: Bench) -> None:
    """Its answer may still be under way."""
    registration = await bench.worker()
    await bench.running()
    await bench.move_clock(LEASE / 2)
    assert not (await bench.store.renew(registration, [], LEASE)).strays


async def test_renewing_tells_no_worker_of_claims_that_others_hold(bench: Bench) -> None:
    await bench.running(registration=await bench.join())
    await bench.move_clock(2 * LEASE)
    assert not (await bench.store.renew(await bench.worker(), [], LEASE)).strays


async def test_renewing_does_not_count_a_lost_claim_as_one_that_is_held(bench: Bench) -> None:
    """The worker names one claim, and the store holds one: not the same."""
    registration = await bench.worker()
    lost, unknown = await bench.running(), await bench.running()
    await bench.succeed(lost)
    await bench.move_clock(2 * LEASE)
    renewal = await bench.store.renew(registration, [lost], LEASE)
    assert (renewal.lost, renewal.strays) == (frozenset({lost}), True)
    assert list(await bench.store.held(registration)) == [unknown]


async def test_an_evicted_worker_learns_it_when_it_renews(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    claim = await bench.running(registration=registration)
    await bench.move_clock(2 * LEASE)
    await bench.store.evict(10)
    assert not (await bench.store.renew(registration, [claim], LEASE)).alive


async def test_a_worker_that_left_is_not_alive(bench: Bench) -> None:
    registration = await bench.join()
    await bench.store.leave(registration)
    assert not (await bench.store.renew(registration, [], LEASE)).alive


async def test_a_worker_that_never_joined_is_not_alive(bench: Bench) -> None:
    stranger = Registration(WorkerId("01890a5d-ac96-774b-bcce-b302099a0000"), Subscription(("report",), (ACME,)))
    assert not (await bench.store.renew(stranger, [], LEASE)).alive


async def test_an_evicted_worker_stays_out_though_it_renews(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    await bench.move_clock(2 * LEASE)
    await bench.store.evict(10)
    await bench.store.renew(registration, [], LEASE)
    assert registration.worker not in {worker.id for worker in await bench.store.workers()}


async def test_renewing_ends_the_registrations_of_the_dead(bench: Bench) -> None:
    dead = await bench.join(lease=LEASE)
    await bench.move_clock(2 * LEASE)
    await bench.store.renew(await bench.worker(), [], HOUR)
    assert not (await bench.store.renew(dead, [], LEASE)).alive


@pytest.mark.abilities("upkeep")
async def test_renewing_tells_that_a_dead_workers_claims_wait(bench: Bench) -> None:
    await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    assert (await bench.store.renew(await bench.worker(), [], HOUR)).orphans


@pytest.mark.abilities("upkeep")
async def test_renewing_tells_that_claims_of_one_that_left_wait(bench: Bench) -> None:
    registration = await bench.join()
    await bench.running(registration=registration)
    await bench.store.leave(registration)
    assert (await bench.store.renew(await bench.worker(), [], HOUR)).orphans


async def test_there_are_no_orphans_once_they_are_finished(bench: Bench) -> None:
    registration = await bench.join()
    claim = await bench.running(registration=registration)
    await bench.store.leave(registration)
    await bench.finish(claim, LeaseLost())
    assert not (await bench.store.renew(await bench.worker(), [], HOUR)).orphans


async def test_nor_if_a_claim_came_across_them_before(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    assert await bench.claim() == []
    await bench.store.evict(10)
    await bench.finish(claim, LeaseLost())
    assert not (await bench.store.renew(await bench.worker(), [], HOUR)).orphans


async def test_renewing_tells_how_long_it_is_until_the_next_job_is_due(bench: Bench) -> None:
    await bench.enqueue(delay=HOUR)
    next_due = (await bench.store.renew(await bench.worker(), [], LEASE)).next_due
    assert next_due is not None
    assert timedelta(minutes=59) < next_due <= HOUR


async def test_evicting_takes_nothing_from_the_living(bench: Bench) -> None:
    await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(ALMOST)
    assert list(await bench.store.evict(10)) == []


async def test_evicting_returns_the_claims_of_the_dead_as_they_were_made(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE), payload={"month": 3}, max_attempts=7)
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    assert orphan == claim
    assert (orphan.definition, orphan.version, orphan.max_attempts) == (claim.definition, 1, 7)
    assert (orphan.tries, orjson.loads(orphan.payload)) == (1, {"month": 3})


async def test_evicting_returns_the_claims_of_one_that_left(bench: Bench) -> None:
    registration = await bench.join()
    claim = await bench.running(registration=registration)
    await bench.store.leave(registration)
    assert list(await bench.store.evict(10)) == [claim]


async def test_an_orphan_stays_as_it_is_until_someone_finishes_it(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    assert list(await bench.store.evict(10)) == [claim]
    assert (await bench.status(claim.job), await bench.claim()) == (Status.RUNNING, [])
    assert list(await bench.store.evict(10)) == [claim]


async def test_an_orphan_that_is_finished_is_no_orphan(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    await bench.store.evict(10)
    await bench.finish(claim, LeaseLost())
    assert list(await bench.store.evict(10)) == []


async def test_an_eviction_leaves_claims_above_its_limit(bench: Bench) -> None:
    registration = await bench.join(lease=LEASE)
    claims = {await bench.running(registration=registration) for _ in range(3)}
    await bench.move_clock(2 * LEASE)
    first = await bench.store.evict(2)
    assert len(first) == 2
    await bench.finish_all([(claim, LeaseLost()) for claim in first])
    assert {*first, *await bench.store.evict(2)} == claims


async def test_a_crash_uses_an_attempt_up_and_the_job_waits_for_its_retry(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, LeaseLost())
    assert await bench.history(claim.job) == [(1, AttemptStatus.CRASHED)]
    await bench.move_clock(10 * SECOND)
    assert (await bench.claim_one()).tries == 2


async def test_a_job_that_kills_its_workers_becomes_a_dead_letter(bench: Bench) -> None:
    job = await bench.enqueue(max_attempts=2)
    for _ in range(2):
        await bench.claim_one(await bench.join(lease=LEASE))
        await bench.move_clock(2 * LEASE)
        (orphan,) = await bench.store.evict(10)
        await bench.finish(orphan, LeaseLost())
        await bench.move_clock(10 * SECOND)
    record = await bench.job(job)
    assert (record.status, record.last_error_code) == (Status.DEAD_LETTER, "lease_lost")


async def test_a_worker_back_before_its_orphan_was_finished_finishes(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.succeed(claim)
    assert await bench.finish_all([(orphan, LeaseLost())]) == {orphan}
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_a_worker_back_after_its_orphan_was_finished_is_fenced(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    (orphan,) = await bench.store.evict(10)
    await bench.finish(orphan, LeaseLost())
    assert await bench.finish_all([(claim, Succeeded())]) == {claim}
    assert await bench.status(claim.job) is Status.QUEUED


async def test_a_worker_that_joins_again_gets_another_id(bench: Bench) -> None:
    assert len({(await bench.join()).worker for _ in range(5)}) == 5


async def test_a_worker_is_listed_with_what_it_said_about_itself(bench: Bench) -> None:
    facts = WorkerFacts(host="host-1", pid=42, version="1.2.3", slots=8, metadata={"zone": "b"})
    registration = await bench.store.join(Subscription(("email", "report"), (ACME,)), facts, HOUR)
    await bench.enqueue_many(3)
    await bench.claim(2, registration)
    listed = await worker(bench.store, registration)
    assert (listed.facts, listed.running) == (facts, 2)
    assert (set(listed.serves.definitions), listed.serves.tenants) == ({"email", "report"}, (ACME,))
    assert timedelta(minutes=59) < listed.lease_expires_at - listed.started_at <= HOUR + SECOND


async def test_a_worker_for_all_tenants_is_listed_as_such(bench: Bench) -> None:
    registration = await bench.join("report", tenants=None)
    assert (await worker(bench.store, registration)).serves == Subscription(("report",), None)


async def test_a_listed_worker_was_seen_when_it_renewed(bench: Bench) -> None:
    registration = await bench.join(lease=HOUR)
    before = await worker(bench.store, registration)
    await bench.move_clock(LEASE)
    await bench.store.renew(registration, [], HOUR)
    after = await worker(bench.store, registration)
    assert after.started_at == before.started_at
    assert after.last_seen_at - before.last_seen_at >= LEASE
    assert after.lease_expires_at - before.lease_expires_at >= LEASE


async def test_workers_that_left_or_died_are_not_listed(bench: Bench) -> None:
    left, dead, alive = await bench.join(), await bench.join(lease=LEASE), await bench.join(lease=HOUR)
    await bench.store.leave(left)
    await bench.move_clock(2 * LEASE)
    await bench.store.evict(10)
    listed = {worker.id for worker in await bench.store.workers()}
    assert alive.worker in listed
    assert not {left.worker, dead.worker} & listed


async def worker(store: Store, registration: Registration) -> WorkerRecord:
    (found,) = (worker for worker in await store.workers() if worker.id == registration.worker)
    return found


async def test_a_worker_that_drains_is_listed_so_until_it_leaves(bench: Bench) -> None:
    registration, other = await bench.join(lease=LEASE), await bench.join(lease=LEASE)
    claim = await bench.running(registration=registration)
    await bench.store.note_drain(registration)
    listed = {each.id: each.drains_since for each in await bench.store.workers()}
    since = listed[registration.worker]
    assert since is not None
    assert listed[other.worker] is None
    await bench.move_clock(SECOND)
    assert (await bench.store.renew(registration, [claim], LEASE)).alive
    await bench.succeed(claim)
    assert {each.id: each.drains_since for each in await bench.store.workers()}[registration.worker] == since
    await bench.store.leave(registration)
    assert registration.worker not in {each.id for each in await bench.store.workers()}


async def test_a_job_is_not_said_to_be_served_by_a_worker_that_drains(bench: Bench) -> None:
    registration = await bench.join("email", lease=HOUR)
    job = await bench.enqueue("email")
    facts = await bench.jobs.facts(job)
    assert facts is not None
    assert facts.lane.workers == 1
    await bench.store.note_drain(registration)
    facts = await bench.jobs.facts(job)
    assert facts is not None
    assert facts.lane.workers == 0

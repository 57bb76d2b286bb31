"""One id and one key in the hands of several tenants: each verb of a tenant acts on its own job alone.

The bystanders, of which one sorts before `acme` and one after, hold a waiting, a running and an ended job under ids
that the tests use here, and keys of every mode. Their fixture fails a test that changes any of it.
"""

from datetime import timedelta

import pytest
from tests.store.bench import BROUGHT_ID, KEY, LEASE, Bench, keyed
from tests.store.bystander import BYSTANDERS_IDS, DEAD_ID, FAR, RUNNING_ID
from tests.store.wake_listener import asleep
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.errors import DuplicateJob, UnknownTenant
from leasehold.model.dedupe import Always, Dedupe, Mode, OnConflict, WhileActive, Within
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.model.limits import Limits, Scope, ScopeKind
from leasehold.model.outcome import Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import CancelAnswer, Filter, RescheduleAnswer, RetryAnswer, Store, Wake

EACH_ID = pytest.mark.parametrize("job", BYSTANDERS_IDS, ids=["waiting", "running", "dead"])
EACH_MODE = pytest.mark.parametrize(
    ("mode", "key"),
    [(WhileActive(), KEY), (Within(FAR), f"{KEY}-within"), (Always(), f"{KEY}-always")],
    ids=["active", "within", "always"],
)


# A tenant that has no job of this id


@EACH_ID
async def test_a_foreign_job_is_not_shown(bench: Bench, job: JobId) -> None:
    assert await bench.jobs.get(job) is None
    assert list(await bench.jobs.attempts(job)) == []
    assert list(await bench.jobs.lines(job, 1)) == []
    assert await bench.jobs.wait_until_final(job, timedelta()) is None
    assert list((await bench.jobs.find(Filter(), None, 10)).jobs) == []
    assert set((await bench.jobs.counts(10)).values()) <= {0}


@EACH_ID
async def test_a_foreign_job_can_not_be_canceled(bench: Bench, job: JobId) -> None:
    assert await bench.jobs.cancel([job]) == {job: CancelAnswer.UNKNOWN}


@EACH_ID
async def test_a_foreign_job_can_not_be_retried(bench: Bench, job: JobId) -> None:
    for attempt in (1, 2):
        assert await bench.jobs.retry({job: attempt}) == {job: RetryAnswer.UNKNOWN}


@EACH_ID
async def test_a_foreign_job_can_not_be_moved(bench: Bench, job: JobId) -> None:
    assert await bench.jobs.reschedule([job], HOUR, 1) == {job: RescheduleAnswer.UNKNOWN}


# A tenant that has its own job of this id


@EACH_ID
async def test_a_job_of_a_shared_id_is_shown_with_its_own_story(bench: Bench, job: JobId) -> None:
    claim = await bench.running("email", id=job, payload={"to": "acme"})
    assert (await bench.job(job)).payload == {"to": "acme"}
    assert await bench.texts(claim) == []
    assert [attempt.worker for attempt in await bench.jobs.attempts(job)] == [claim.worker]
    await bench.succeed(claim)
    assert [attempt.worker for attempt in await bench.jobs.attempts(job)] == [claim.worker]
    assert await bench.status(job) is Status.SUCCEEDED
    assert [found.tenant for found in (await bench.jobs.find(Filter(), None, 10)).jobs] == [ACME]


@EACH_ID
@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
async def test_a_cancel_reaches_the_tenants_own_job_alone(bench: Bench, job: JobId, runs: bool) -> None:
    await (bench.running if runs else bench.enqueue)(id=job)
    answer = CancelAnswer.REQUESTED if runs else CancelAnswer.CANCELED
    assert await bench.jobs.cancel([job]) == {job: answer}
    assert (await bench.job(job)).cancel_requested_at is not None


@EACH_ID
async def test_a_retry_queues_the_tenants_own_job_alone(bench: Bench, job: JobId) -> None:
    await bench.dead_lettered(id=job)
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.QUEUED}
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.ACTIVE}


@EACH_ID
async def test_a_retry_compares_the_tenants_own_attempt(bench: Bench, job: JobId) -> None:
    await bench.dead_lettered(id=job)
    assert await bench.jobs.retry({job: 7}) == {job: RetryAnswer.CHANGED}


@EACH_ID
async def test_a_reschedule_moves_the_tenants_own_job_alone(bench: Bench, job: JobId) -> None:
    await bench.enqueue(id=job)
    assert await bench.jobs.reschedule([job], HOUR, 1) == {job: RescheduleAnswer.RESCHEDULED}
    assert (await bench.job(job)).priority == 1


@EACH_ID
async def test_a_finish_ends_the_tenants_own_run_alone(bench: Bench, job: JobId) -> None:
    claim = await bench.running(id=job)
    assert await bench.store.finish([(claim, decide(Succeeded(), claim, jitter=0))]) == frozenset()
    assert await bench.status(job) is Status.SUCCEEDED


@EACH_ID
@pytest.mark.abilities("wakes")
async def test_a_prune_takes_the_attempts_of_its_own_job_alone(bench: Bench, job: JobId) -> None:
    """Each bystander has an attempt, and a line of it, under one of these ids."""
    await bench.succeeded(id=job)
    await bench.move_clock(31 * DAY)
    assert await bench.store.prune(10) == 1


@EACH_ID
async def test_a_request_under_a_shared_id_is_compared_with_ones_own(bench: Bench, job: JobId) -> None:
    mine = NewJob(definition="email", id=job, payload={"to": "acme"})
    assert [placed.created for placed in await bench.jobs.enqueue([mine])] == [True]
    assert [placed.created for placed in await bench.jobs.enqueue([mine])] == [False]


# Keys


@EACH_MODE
async def test_a_key_that_others_hold_is_free(bench: Bench, mode: Mode, key: str) -> None:
    await bench.enqueue(dedupe=keyed(mode, key))


@EACH_MODE
async def test_a_key_is_held_by_the_tenants_own_job(bench: Bench, mode: Mode, key: str) -> None:
    mine = await bench.enqueue(dedupe=keyed(mode, key))
    (placed,) = await bench.jobs.enqueue([NewJob(definition="report", dedupe=keyed(mode, key))])
    assert (placed.id, placed.created) == (mine, False)


@EACH_MODE
async def test_a_replace_changes_the_tenants_own_job_alone(bench: Bench, mode: Mode, key: str) -> None:
    """The job that is replaced has an id that the bystanders' waiting job has, too."""
    await bench.enqueue(id=BROUGHT_ID, dedupe=keyed(mode, key))
    again = Dedupe(key, mode, OnConflict.REPLACE)
    (placed,) = await bench.jobs.enqueue([NewJob(definition="email", payload={"to": "me"}, dedupe=again)])
    assert (placed.id, placed.replaced) == (BROUGHT_ID, True)
    assert (await bench.job(BROUGHT_ID)).payload == {"to": "me"}


@EACH_MODE
async def test_a_job_that_runs_is_not_replaced_by_anothers(bench: Bench, mode: Mode, key: str) -> None:
    """The bystanders' job of the same id waits, and could be replaced."""
    await bench.running(id=BROUGHT_ID, dedupe=keyed(mode, key))
    again = Dedupe(key, mode, OnConflict.REPLACE)
    with pytest.raises(DuplicateJob, match=r"\(running\)"):
        await bench.jobs.enqueue([NewJob(definition="email", dedupe=again)])


@pytest.mark.parametrize("conflict", [OnConflict.RAISE, OnConflict.REPLACE])
async def test_a_refusal_tells_the_state_of_ones_own_job(bench: Bench, conflict: OnConflict) -> None:
    """The bystanders' jobs of this id are dead letters."""
    await bench.running(id=DEAD_ID, dedupe=keyed())
    with pytest.raises(DuplicateJob, match=r"\(running\)"):
        await bench.jobs.enqueue([NewJob(definition="report", dedupe=Dedupe(KEY, on_conflict=conflict))])


async def test_a_duplicate_gives_back_its_brought_id(bench: Bench) -> None:
    await bench.enqueue(dedupe=keyed())
    (placed,) = await bench.jobs.enqueue([NewJob(definition="email", id=RUNNING_ID, dedupe=keyed())])
    assert not placed.created
    await bench.enqueue("report", id=RUNNING_ID, payload={"of": "acme"})


@pytest.mark.parametrize(
    ("mode", "key"), [(Within(HOUR), f"{KEY}-within"), (Always(HOUR), f"{KEY}-always")], ids=["within", "always"]
)
async def test_a_retry_asks_who_holds_the_key_of_its_tenant(bench: Bench, mode: Mode, key: str) -> None:
    """The bystanders hold the key longer."""
    job = await bench.succeeded(dedupe=keyed(mode, key))
    await bench.move_clock(2 * HOUR)
    assert await bench.jobs.retry({job: 1}) == {job: RetryAnswer.QUEUED}


# Wakes


@pytest.mark.abilities("wakes")
async def test_work_of_others_does_not_wake_a_tenants_worker(bench: Bench) -> None:
    """The cancel comes after it on the same way: a wake for the bystanders' work would have been heard before."""
    registration = await bench.worker()
    running = await bench.running(registration=registration)
    async with asleep(bench.store, registration) as listener:
        await bench.store.limit(Scope(ScopeKind.TENANT, ACME), Limits(max_running=5))
        await bench.jobs.cancel([running.job])
        assert await listener.next() is Wake.CANCEL


async def test_a_heartbeat_sees_no_work_of_other_tenants(bench: Bench) -> None:
    """The bystanders have ready jobs of the same definitions."""
    registration = await bench.worker()
    assert not (await bench.store.renew(registration, [], LEASE, look=True)).work_waits
    await bench.enqueue()
    assert (await bench.store.renew(registration, [], LEASE, look=True)).work_waits


# Strict tenants


async def test_strict_tenants_are_off_at_first(bench: Bench) -> None:
    assert not await bench.store.strict_tenants()
    await bench.store.tenant(tenant_id("new")).enqueue([NewJob(definition="report")])


@pytest.mark.parametrize("count", [1, 2], ids=["one job", "two jobs"])
async def test_a_strict_store_refuses_unregistered_tenants(bench: Bench, count: int) -> None:
    await bench.store.set_strict_tenants(True)
    assert await bench.store.strict_tenants()
    with pytest.raises(UnknownTenant, match="LH-1006: tenant 'acmee' was never registered"):
        await bench.store.tenant(tenant_id("acmee")).enqueue([NewJob(definition="report")] * count)
    assert "acmee" not in await bench.store.tenants()


async def test_a_strict_store_accepts_tenants_with_jobs(bench: Bench) -> None:
    await bench.enqueue()
    await bench.store.set_strict_tenants(True)
    await bench.enqueue()


async def test_a_strict_store_accepts_an_added_tenant(bench: Bench, second_store: Store) -> None:
    await bench.store.set_strict_tenants(True)
    new = tenant_id("new")
    assert await bench.store.add_tenant(new)
    assert not await bench.store.add_tenant(new)
    await second_store.tenant(new).enqueue([NewJob(definition="report")])


async def test_unregistered_tenants_are_accepted_again(bench: Bench) -> None:
    await bench.store.set_strict_tenants(True)
    await bench.store.set_strict_tenants(False)
    await bench.store.tenant(tenant_id("new")).enqueue([NewJob(definition="report")])

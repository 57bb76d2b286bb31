"""The facts about one job that decide whether a claim takes it."""

from collections.abc import Sequence

import pytest
from tests.store.bench import LEASE, UNKNOWN_ID, Bench, EngineUnderTest, keyed
from tests.store.wake_listener import listening
from tests.tenant_kit import HOUR, OTHER

from leasehold.model.dedupe import Mode, WhileActive, Within
from leasehold.model.explain import explain
from leasehold.model.explanation import Check
from leasehold.model.facts import COUNTED_AHEAD, JobFacts
from leasehold.model.job import JobId, NewJob
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.store import RetryAnswer, Subscription, WorkerFacts

DEFINITION = Scope(ScopeKind.DEFINITION, "email")


async def facts_of(bench: Bench, job: JobId) -> JobFacts:
    facts = await bench.jobs.facts(job)
    assert facts is not None
    return facts


async def blocking(bench: Bench, job: JobId) -> Sequence[Check]:
    return explain(await facts_of(bench, job)).blocking


async def names(bench: Bench, job: JobId) -> list[str]:
    return [check.name for check in await blocking(bench, job)]


async def test_a_ready_job_that_a_worker_serves_is_free(bench: Bench) -> None:
    await bench.worker()
    job = await bench.enqueue()
    facts = await facts_of(bench, job)
    assert facts.job == await bench.job(job)
    assert (facts.ahead, facts.locked_by, facts.version_known) == (0, None, True)
    assert explain(facts).blocking == []


async def test_an_unknown_job_has_no_facts(bench: Bench) -> None:
    assert await bench.jobs.facts(UNKNOWN_ID) is None


async def test_a_job_of_another_tenant_has_no_facts(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await bench.store.tenant(OTHER).facts(job) is None


async def test_an_ended_job_is_explained_by_its_end(bench: Bench) -> None:
    assert await names(bench, await bench.succeeded()) == ["state"]


@pytest.mark.parametrize("mode", [WhileActive(), Within(2 * HOUR)], ids=["active", "within"])
async def test_an_ended_job_tells_which_job_holds_its_key(bench: Bench, mode: Mode) -> None:
    """A retry of it is refused just as long."""
    first = await bench.canceled(dedupe=keyed(mode))
    assert (await facts_of(bench, first)).key_holder is None
    await bench.move_clock(3 * HOUR)
    holder = await bench.enqueue(dedupe=keyed(mode))
    assert (await facts_of(bench, first)).key_holder == holder
    assert await names(bench, first) == ["state", "dedupe_key"]
    seen = {first: (await bench.job(first)).attempt}
    assert await bench.jobs.retry(seen) == {first: RetryAnswer.DUPLICATE}
    await bench.jobs.cancel([holder])
    await bench.move_clock(3 * HOUR)
    assert await names(bench, first) == ["state"]
    assert await bench.jobs.retry(seen) == {first: RetryAnswer.QUEUED}


async def test_a_key_of_another_tenant_is_not_told(bench: Bench) -> None:
    first = await bench.canceled(dedupe=keyed())
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report", dedupe=keyed())])
    assert (await facts_of(bench, first)).key_holder is None


async def test_a_job_is_explained_by_its_due_time_and_its_clock(bench: Bench) -> None:
    await bench.worker()
    job = await bench.enqueue(delay=HOUR)
    facts = await facts_of(bench, job)
    assert explain(facts).starts_at == facts.job.scheduled_for
    await bench.move_clock(2 * HOUR)
    assert await names(bench, job) == []
    assert (await facts_of(bench, job)).now > facts.job.scheduled_for


async def test_jobs_ahead_are_those_of_the_tenant_that_come_first(bench: Bench) -> None:
    await bench.enqueue("email")
    await bench.enqueue(priority=200)
    job = await bench.enqueue()
    await bench.enqueue()
    await bench.enqueue("email", priority=1)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report", priority=1)])
    assert (await facts_of(bench, job)).ahead == 2


@pytest.mark.abilities("priorities")
async def test_jobs_ahead_of_one_that_came_due_are_all_of_its_priority(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    await bench.enqueue()
    await bench.enqueue(priority=200)
    await bench.move_clock(2 * HOUR)
    assert (await facts_of(bench, job)).ahead == 1


async def test_jobs_ahead_are_counted_up_to_a_bound(bench: Bench) -> None:
    await bench.enqueue_many(COUNTED_AHEAD // 2 + 1)
    await bench.enqueue_many(COUNTED_AHEAD // 2 + 1, "email")
    assert (await facts_of(bench, await bench.enqueue())).ahead == COUNTED_AHEAD


async def test_workers_are_listed_with_what_they_serve(bench: Bench) -> None:
    here = await bench.join("email")
    elsewhere = await bench.join("email", tenants=(OTHER,))
    await bench.join("report")
    workers = (await facts_of(bench, await bench.enqueue("email"))).workers
    mine = {worker.id: worker for worker in workers if worker.id in (here.worker, elsewhere.worker)}
    assert workers[0].id == here.worker
    assert (mine[here.worker].serves, mine[elsewhere.worker].serves) == (True, False)
    assert not mine[elsewhere.worker].serves_tenant
    assert {worker.definitions for worker in workers if not worker.serves_definition} == {("report",)}


async def test_slots_of_a_worker_are_counted_with_its_running_jobs(bench: Bench) -> None:
    facts = WorkerFacts(host="bench", pid=1, slots=3)
    worker = await bench.store.join(Subscription(("report", "email"), (bench.tenant,)), facts, LEASE)
    await bench.running(registration=worker)
    await bench.running("email", registration=worker)
    (state,) = [w for w in (await facts_of(bench, await bench.enqueue())).workers if w.serves]
    assert (state.slots, state.running, state.free_slots) == (3, 2, 1)


async def test_a_worker_whose_lease_is_over_is_still_listed(bench: Bench) -> None:
    lost = await bench.join("email", lease=LEASE)
    job = await bench.enqueue("email")
    await bench.move_clock(2 * LEASE)
    assert await names(bench, job) == ["worker"]
    (check,) = await blocking(bench, job)
    assert lost.worker in [worker["id"] for worker in check.evidence["at_hand"]]
    assert "its lease ended" in " ".join(check.details)


async def test_a_running_job_whose_worker_left_waits_for_another(bench: Bench) -> None:
    await bench.worker()
    worker = await bench.join()
    claim = await bench.running(registration=worker)
    assert explain(await facts_of(bench, claim.job)).slow == []
    await bench.store.leave(worker)
    (check,) = explain(await facts_of(bench, claim.job)).slow
    assert check.text == "its worker is gone: a live worker ends this try within a minute"


async def test_a_limit_names_the_oldest_job_of_the_same_tenant(bench: Bench) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=2))
    first = await bench.running("email")
    await bench.move_clock(HOUR)
    await bench.running("email")
    (check,) = await blocking(bench, await bench.enqueue("email"))
    assert (check.name, check.evidence["oldest_job"]) == ("definition_limit", first.job)
    assert check.evidence["running"] == 2


async def test_a_limit_names_no_job_of_another_tenant(bench: Bench, engine: EngineUnderTest) -> None:
    await bench.store.limit(DEFINITION, Limits(max_running=1))
    theirs = Bench(engine, OTHER)
    await theirs.running("email")
    await bench.worker()
    (check,) = await blocking(bench, await bench.enqueue("email"))
    assert check.evidence["oldest_job"] is None
    assert check.evidence["oldest_started_at"] is not None


async def test_all_reasons_are_told_at_once(bench: Bench) -> None:
    job = await bench.enqueue("email", delay=HOUR)
    await bench.store.activate("email", False)
    await bench.store.pause(DEFINITION, Pause("outage"))
    await bench.store.pause(Scope(ScopeKind.TENANT, bench.tenant), Pause("unpaid"))
    assert await names(bench, job) == ["due", "definition", "definition_pause", "tenant_pause", "worker"]


@pytest.mark.abilities("wakes")
async def test_a_worker_that_listens_is_told_from_one_that_does_not(bench: Bench) -> None:
    worker = await bench.worker()
    job = await bench.enqueue()

    async def listens() -> bool | None:
        (state,) = [state for state in (await facts_of(bench, job)).workers if state.id == worker.worker]
        return state.listens

    assert not await listens()
    async with listening(bench.store, worker):
        assert await listens()


async def test_reading_facts_changes_nothing(bench: Bench) -> None:
    await bench.worker()
    job = await bench.enqueue()
    before = await bench.job(job)
    await facts_of(bench, job)
    assert await bench.job(job) == before
    assert await bench.claimed_jobs() == [job]

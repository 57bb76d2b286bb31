"""Enqueue: what is stored, all or none, and a call that may be repeated."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.store.bench import BROUGHT_ID, REPORT, Bench, all_jobs, new_id
from tests.tenant_kit import ACME, HOUR, OTHER, SECOND

from leasehold.errors import IdReused, InactiveDefinition, PayloadInvalid, UnknownDefinition
from leasehold.model.job import JobId, NewJob, Source
from leasehold.model.status import DisplayState, Status
from leasehold.store import Store

MINUTE = timedelta(minutes=1)


async def test_a_new_job_is_queued_and_due(bench: Bench) -> None:
    job = await bench.job(await bench.enqueue())
    assert (job.status, job.due, job.display) == (Status.QUEUED, True, DisplayState.READY)
    assert (job.attempt, job.free_attempts, job.worker, job.lease_expires_at) == (0, 0, None, None)
    assert (job.started_at, job.finished_at, job.cancel_requested_at) == (None, None, None)
    assert (job.result, job.last_error, job.last_error_code) == (None, None, None)


async def test_a_job_keeps_all_that_it_was_given(bench: Bench) -> None:
    deadline = datetime(2999, 1, 1, 12, 30, tzinfo=UTC)
    job = await bench.job(
        await bench.enqueue(
            payload={"month": 3},
            priority=7,
            max_attempts=9,
            deadline=deadline,
            source=Source.EVENT,
            source_ref="trigger-1",
            correlation_id="request-1",
            created_by="ada",
        )
    )
    assert (job.tenant, job.definition, job.version, job.payload) == (ACME, "report", 1, {"month": 3})
    assert (job.priority, job.max_attempts, job.deadline) == (7, 9, deadline)
    assert (job.source, job.source_ref) == (Source.EVENT, "trigger-1")
    assert (job.correlation_id, job.created_by) == ("request-1", "ada")


async def test_priority_and_attempts_default_to_the_definitions(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, key="urgent", priority=5, max_attempts=8)])
    job = await bench.job(await bench.enqueue("urgent"))
    assert (job.priority, job.max_attempts, job.source) == (5, 8, Source.MANUAL)


async def test_a_pinned_version_is_the_jobs_version(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, max_attempts=9, priority=5)])
    jobs = [await bench.enqueue(version=version) for version in (1, 2, None)]
    assert [(await bench.job(job)).version for job in jobs] == [1, 2, 2]


async def test_priority_and_attempts_default_to_the_pinned_versions(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, max_attempts=9, priority=5)])
    job = await bench.job(await bench.enqueue(version=1))
    assert (job.max_attempts, job.priority) == (REPORT.max_attempts, REPORT.priority)


async def test_a_pinned_job_runs_as_its_version_says(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, timeout=2 * HOUR)])
    assert (await bench.running(version=1)).definition == REPORT


async def test_a_version_that_never_was_is_refused_and_named(bench: Bench) -> None:
    with pytest.raises(UnknownDefinition, match=r"version 2 of 'report' does not exist; version 1 is current"):
        await bench.jobs.enqueue([NewJob(definition="report"), NewJob(definition="report", version=2)])
    assert await all_jobs(bench.jobs) == []


async def test_a_version_of_another_definition_is_refused(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, max_attempts=9)])
    with pytest.raises(UnknownDefinition, match=r"version 2 of 'email' does not exist"):
        await bench.enqueue("email", version=2)


async def test_an_inactive_definition_takes_no_pinned_job_either(bench: Bench) -> None:
    await bench.store.activate("report", False)
    with pytest.raises(InactiveDefinition):
        await bench.enqueue(version=1)


async def test_a_payload_comes_back_as_it_was(bench: Bench) -> None:
    payload: dict[str, object] = {
        "text": 'ü "\\ \u2028 😀',
        "list": [1, 2.5, -0.0, 2**53 + 1, True, None, {}],
        "": {"deep": [[]]},
    }
    assert (await bench.job(await bench.enqueue(payload=payload))).payload == payload


async def test_payloads_of_many_come_back_as_they_were(bench: Bench) -> None:
    payloads: list[dict[str, object]] = [{"text": "a\nb\r\n,\u2028"}, {}, {"deep": [{"x": "\n"}]}, {"text": "\\n"}]
    placed = await bench.jobs.enqueue([NewJob(definition="report", payload=payload) for payload in payloads])
    assert [(await bench.job(each.id)).payload for each in placed] == payloads


async def test_jobs_that_differ_in_payload_alone_keep_all_that_they_share(bench: Bench) -> None:
    deadline, moment = datetime(2999, 1, 1, 12, 30, tzinfo=UTC), datetime(2998, 1, 1, tzinfo=UTC)
    shared = NewJob(
        definition="report",
        version=1,
        priority=7,
        max_attempts=9,
        at=moment,
        deadline=deadline,
        source=Source.EVENT,
        source_ref="trigger-1",
        correlation_id="request-1",
        created_by="ada",
    )
    placed = await bench.jobs.enqueue([replace(shared, payload={"number": number}) for number in range(3)])
    jobs = [await bench.job(each.id) for each in placed]
    assert [job.payload["number"] for job in jobs] == [0, 1, 2]
    for job in jobs:
        assert (job.definition, job.version, job.priority, job.max_attempts) == ("report", 1, 7, 9)
        assert (job.scheduled_for, job.deadline, job.due) == (moment, deadline, False)
        assert (job.source, job.source_ref) == (Source.EVENT, "trigger-1")
        assert (job.correlation_id, job.created_by) == ("request-1", "ada")


@pytest.mark.parametrize("jobs", [1, 3])
async def test_where_nothing_is_said_a_job_is_what_its_definition_says(bench: Bench, jobs: int) -> None:
    await bench.store.sync_definitions([replace(REPORT, key="urgent", priority=5, max_attempts=8)])
    for job in await bench.enqueue_many(jobs, "urgent", source=Source.SYSTEM):
        found = await bench.job(job)
        assert (found.priority, found.max_attempts, found.version, found.source) == (5, 8, 1, Source.SYSTEM)
        assert (found.status, found.due, found.scheduled_for) == (Status.QUEUED, True, found.queued_at)


@pytest.mark.parametrize("jobs", [1, 3])
async def test_one_or_many_of_an_inactive_definition_are_refused(bench: Bench, jobs: int) -> None:
    await bench.store.activate("report", False)
    with pytest.raises(InactiveDefinition, match="report"):
        await bench.enqueue_many(jobs)
    assert await all_jobs(bench.jobs) == []


@pytest.mark.parametrize("jobs", [1, 3])
async def test_one_or_many_of_a_version_that_never_was_are_refused(bench: Bench, jobs: int) -> None:
    with pytest.raises(UnknownDefinition, match=r"version 2 of 'report' does not exist"):
        await bench.enqueue_many(jobs, version=2)
    assert await all_jobs(bench.jobs) == []


async def test_a_payload_of_256_kilobytes_is_kept(bench: Bench) -> None:
    payload = {"text": "x" * 262_000}
    assert (await bench.job(await bench.enqueue(payload=payload))).payload == payload


async def test_a_delayed_job_is_not_due(bench: Bench) -> None:
    job = await bench.job(await bench.enqueue(delay=HOUR))
    assert (job.status, job.due, job.display) == (Status.QUEUED, False, DisplayState.SCHEDULED)
    assert HOUR <= job.scheduled_for - job.queued_at < HOUR + MINUTE


async def test_a_delayed_job_becomes_due_by_the_clock_alone(bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    await bench.move_clock(HOUR)
    assert (await bench.job(job)).due


async def test_a_moment_wins_over_a_delay(bench: Bench) -> None:
    moment = datetime(2999, 1, 1, tzinfo=UTC)
    job = await bench.job(await bench.enqueue(at=moment, delay=SECOND))
    assert (job.scheduled_for, job.due) == (moment, False)


async def test_a_moment_in_the_past_is_due(bench: Bench) -> None:
    job = await bench.enqueue(at=datetime(2001, 1, 1, tzinfo=UTC))
    assert (await bench.job(job)).due
    assert await bench.claimed_jobs() == [job]


async def test_a_batch_is_answered_in_the_order_given(bench: Bench) -> None:
    batch = [NewJob(definition="report", payload={"number": number}) for number in range(20)]
    placed = await bench.jobs.enqueue(batch)
    assert all(each.created for each in placed)
    assert [(await bench.job(each.id)).payload["number"] for each in placed] == list(range(20))


async def test_an_empty_batch_creates_nothing(bench: Bench) -> None:
    assert list(await bench.jobs.enqueue([])) == []
    assert await all_jobs(bench.jobs) == []


async def test_a_thousand_jobs_in_one_call_are_a_thousand_jobs(bench: Bench) -> None:
    jobs = await bench.enqueue_many(1000)
    assert len(set(jobs)) == 1000
    assert (await bench.jobs.counts(2000))[Status.QUEUED] == 1000


async def test_an_unknown_definition_is_refused_and_named(bench: Bench) -> None:
    with pytest.raises(UnknownDefinition, match="no-such-thing"):
        await bench.enqueue("no-such-thing")


async def test_one_unknown_definition_in_a_batch_stores_nothing(bench: Bench) -> None:
    with pytest.raises(UnknownDefinition):
        await bench.jobs.enqueue([NewJob(definition="report"), NewJob(definition="no-such-thing")])
    assert await all_jobs(bench.jobs) == []


async def test_an_inactive_definition_takes_nothing_new(bench: Bench) -> None:
    await bench.store.activate("report", False)
    with pytest.raises(InactiveDefinition, match="report"):
        await bench.jobs.enqueue([NewJob(definition="email"), NewJob(definition="report")])
    assert await all_jobs(bench.jobs) == []


async def test_an_active_definition_takes_jobs_again(bench: Bench) -> None:
    await bench.store.activate("report", False)
    await bench.store.activate("report", True)
    assert await bench.status(await bench.enqueue()) is Status.QUEUED


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": "nul\0"}, {"x": "\ud800"}, {"x": datetime.now(UTC)}])
async def test_a_payload_that_is_not_plain_json_stores_nothing(bench: Bench, payload: dict[str, object]) -> None:
    with pytest.raises(PayloadInvalid):
        await bench.jobs.enqueue([NewJob(definition="report"), NewJob(definition="report", payload=payload)])
    assert await all_jobs(bench.jobs) == []


async def test_a_brought_id_is_the_jobs_id(bench: Bench) -> None:
    assert await bench.enqueue(id=BROUGHT_ID) == BROUGHT_ID
    assert (await bench.job(BROUGHT_ID)).tenant == ACME


async def test_a_brought_id_that_is_repeated_creates_nothing(bench: Bench) -> None:
    await bench.enqueue(id=BROUGHT_ID, payload={"call": 1})
    (again,) = await bench.jobs.enqueue([NewJob(definition="report", id=BROUGHT_ID, payload={"call": 1})])
    assert (again.id, again.created) == (BROUGHT_ID, False)
    assert [job.payload for job in await all_jobs(bench.jobs)] == [{"call": 1}]


@pytest.mark.parametrize(
    "other", [{"payload": {"call": 2}}, {"definition": "email"}], ids=["another payload", "another definition"]
)
@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_a_brought_id_is_refused_for_another_request(bench: Bench, other: dict[str, Any], ended: bool) -> None:
    await (bench.succeeded if ended else bench.enqueue)(id=BROUGHT_ID, payload={"call": 1})
    request: dict[str, Any] = {"definition": "report", "id": BROUGHT_ID, "payload": {"call": 1}}
    with pytest.raises(IdReused, match=BROUGHT_ID):
        await bench.jobs.enqueue([NewJob(definition="email"), NewJob(**{**request, **other})])
    assert [job.payload for job in await all_jobs(bench.jobs)] == [{"call": 1}]


async def test_an_id_is_refused_for_another_request_of_the_same_batch(bench: Bench) -> None:
    with pytest.raises(IdReused):
        await bench.jobs.enqueue(
            [NewJob(definition=key, id=BROUGHT_ID) for key in ("report", "email")],
        )
    assert await all_jobs(bench.jobs) == []


async def test_the_order_of_a_payloads_keys_makes_no_other_request(bench: Bench) -> None:
    await bench.enqueue(id=BROUGHT_ID, payload={"a": 1, "b": [2.5, None]})
    (again,) = await bench.jobs.enqueue(
        [NewJob(definition="report", id=BROUGHT_ID, payload={"b": [2.5, None], "a": 1})]
    )
    assert not again.created


@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "ended"])
async def test_an_id_of_ours_can_be_supplied_to_repeat_its_request(bench: Bench, ended: bool) -> None:
    """Between the two tables of jobs no unique key would keep it from being used twice."""
    made = await (bench.succeeded if ended else bench.enqueue)(payload={"call": 1})
    (again,) = await bench.jobs.enqueue([NewJob(definition="report", id=made, payload={"call": 1})])
    assert (again.id, again.created) == (made, False)
    with pytest.raises(IdReused):
        await bench.jobs.enqueue([NewJob(definition="report", id=made, payload={"call": 2})])
    assert [job.id for job in await all_jobs(bench.jobs)] == [made]


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER])
async def test_a_brought_id_creates_nothing_after_its_job_ended(bench: Bench, status: Status) -> None:
    await bench.ended(status, id=BROUGHT_ID)
    (again,) = await bench.jobs.enqueue([NewJob(definition="report", id=BROUGHT_ID)])
    assert (again.id, again.created) == (BROUGHT_ID, False)
    assert await bench.status(BROUGHT_ID) is status
    assert await bench.claim() == []


async def test_a_brought_id_twice_in_one_batch_is_one_job(bench: Bench) -> None:
    placed = await bench.jobs.enqueue([NewJob(definition="report", id=BROUGHT_ID)] * 2)
    assert [(each.id, each.created) for each in placed] == [(BROUGHT_ID, True), (BROUGHT_ID, False)]


async def test_a_repeated_batch_creates_only_what_is_missing(bench: Bench) -> None:
    first, second = new_id(), new_id()
    await bench.enqueue(id=first)
    placed = await bench.jobs.enqueue([NewJob(definition="report", id=job) for job in (first, second)])
    assert [(each.id, each.created) for each in placed] == [(first, False), (second, True)]


async def test_two_tenants_may_bring_the_same_id(bench: Bench, store: Store) -> None:
    await bench.enqueue(id=BROUGHT_ID, payload={"of": "acme"})
    (placed,) = await store.tenant(OTHER).enqueue(
        [NewJob(definition="report", id=BROUGHT_ID, payload={"of": "other"})]
    )
    assert placed.created
    assert (await bench.job(BROUGHT_ID)).payload == {"of": "acme"}


async def test_a_job_is_found_by_another_store(bench: Bench, second_store: Store) -> None:
    job = await bench.enqueue()
    assert await second_store.tenant(ACME).get(job) == await bench.job(job)


async def test_a_job_is_unknown_to_another_tenant(bench: Bench, store: Store) -> None:
    job = await bench.enqueue()
    assert await store.tenant(OTHER).get(job) is None


async def test_an_unknown_job_is_not_found(bench: Bench) -> None:
    assert await bench.jobs.get(JobId(new_id())) is None

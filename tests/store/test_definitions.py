"""Definitions: synced from code, versioned by content; a job keeps the version it was enqueued under."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.store.bench import EMAIL, REPORT, Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.errors import InvalidInput, UnknownDefinition
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.definition import Change, Definition, OnExhausted, Registered, Retention
from leasehold.model.job import NewJob
from leasehold.model.status import Status
from leasehold.store import Store, TenantJobs

ELABORATE = Definition(
    key="elaborate ü/1",
    description='says "hello"',
    schema={"type": "object", "properties": {"month": {"type": "integer", "minimum": 1}}, "required": ["month"]},
    timeout=timedelta(seconds=90, milliseconds=250),
    max_attempts=7,
    backoff=Exponential(base=1.5, factor=3, cap=600, jitter=0.25),
    priority=-20,
    retention=Retention(succeeded=timedelta(hours=36), canceled=None, failed=timedelta(days=400), dead_letter=None),
    on_exhausted=OnExhausted.FAILED,
    durable_claims=True,
)
SLOWER = replace(REPORT, timeout=2 * HOUR, max_attempts=9)


async def registered(tenant_jobs: TenantJobs, key: str) -> Registered:
    (found,) = (each for each in await tenant_jobs.definitions() if each.definition.key == key)
    return found


async def test_a_new_definition_is_created_as_version_1(bench: Bench) -> None:
    (change,) = await bench.store.sync_definitions([ELABORATE])
    assert (change.key, change.version, change.created) == (ELABORATE.key, 1, True)


async def test_a_definition_comes_back_as_it_was(bench: Bench) -> None:
    await bench.store.sync_definitions([ELABORATE])
    assert await registered(bench.jobs, ELABORATE.key) == Registered(ELABORATE, version=1, active=True)


@pytest.mark.parametrize("definition", [REPORT, ELABORATE, replace(ELABORATE, schema=None, backoff=Steps(0.5))])
async def test_syncing_again_changes_nothing(bench: Bench, definition: Definition) -> None:
    await bench.store.sync_definitions([definition])
    again = await bench.store.sync_definitions([definition])
    assert list(again) == [Change(definition.key, version=1, fields={}, created=False)]
    assert (await registered(bench.jobs, definition.key)).version == 1


async def test_other_content_becomes_a_new_version_and_says_what_differs(bench: Bench) -> None:
    assert list(await bench.store.sync_definitions([SLOWER, EMAIL])) == [
        Change(
            "report",
            version=2,
            fields={"timeout": (REPORT.timeout, SLOWER.timeout), "max_attempts": (3, 9)},
            created=False,
        ),
        Change("email", version=1, fields={}, created=False),
    ]
    assert await registered(bench.jobs, "report") == Registered(SLOWER, version=2, active=True)


async def test_every_definition_is_answered_for_in_the_order_given(bench: Bench) -> None:
    found = [EMAIL, ELABORATE, SLOWER, Definition("another")]
    changes = await bench.store.sync_definitions(found)
    assert [change.key for change in changes] == [definition.key for definition in found]


async def test_content_of_an_older_version_makes_that_one_current_again(bench: Bench) -> None:
    await bench.store.sync_definitions([SLOWER])
    (change,) = await bench.store.sync_definitions([REPORT])
    assert change == Change(
        "report",
        version=1,
        fields={"timeout": (SLOWER.timeout, REPORT.timeout), "max_attempts": (9, 3)},
        created=False,
    )
    assert await registered(bench.jobs, "report") == Registered(REPORT, version=1, active=True)
    assert (await bench.running()).version == 1


async def test_releases_that_restart_in_turn_add_no_versions(bench: Bench) -> None:
    for _ in range(3):
        await bench.store.sync_definitions([SLOWER])
        await bench.store.sync_definitions([REPORT])
    (change,) = await bench.store.sync_definitions([SLOWER])
    assert change.version == 2


async def test_a_new_version_follows_the_newest_not_the_current_one(bench: Bench) -> None:
    await bench.store.sync_definitions([SLOWER])
    await bench.store.sync_definitions([REPORT])
    (change,) = await bench.store.sync_definitions([replace(REPORT, priority=1)])
    assert change == Change("report", version=3, fields={"priority": (REPORT.priority, 1)}, created=False)
    (back,) = await bench.store.sync_definitions([SLOWER])
    assert back.version == 2


async def test_a_definition_that_goes_back_stays_inactive(bench: Bench) -> None:
    await bench.store.sync_definitions([SLOWER])
    await bench.store.activate("report", False)
    await bench.store.sync_definitions([REPORT])
    assert await registered(bench.jobs, "report") == Registered(REPORT, version=1, active=False)


async def test_an_administrator_sees_what_the_tenants_see(bench: Bench) -> None:
    await bench.store.sync_definitions([SLOWER])
    await bench.store.activate("email", False)
    assert list(await bench.store.definitions()) == list(await bench.jobs.definitions())


async def test_a_definition_that_is_not_synced_stays(bench: Bench) -> None:
    await bench.store.sync_definitions([ELABORATE])
    assert {each.definition for each in await bench.jobs.definitions()} == {REPORT, EMAIL, ELABORATE}


async def test_syncing_nothing_changes_nothing(bench: Bench) -> None:
    assert list(await bench.store.sync_definitions([])) == []
    assert {each.definition for each in await bench.jobs.definitions()} == {REPORT, EMAIL}


async def test_eight_processes_that_sync_at_once_make_one_version(bench: Bench) -> None:
    answers = await asyncio.gather(*(bench.store.sync_definitions([SLOWER, ELABORATE]) for _ in range(8)))
    made = [change for answer in answers for change in answer if change.created or change.fields]
    assert sorted((change.key, change.version) for change in made) == [(ELABORATE.key, 1), ("report", 2)]
    assert {tuple(change.version for change in answer) for answer in answers} == {(2, 1)}


async def test_a_waiting_job_keeps_the_version_it_was_enqueued_under(bench: Bench) -> None:
    job = await bench.enqueue()
    await bench.store.sync_definitions([SLOWER])
    claim = await bench.claim_one()
    assert (claim.job, claim.version, claim.definition, claim.max_attempts) == (job, 1, REPORT, 3)


async def test_a_job_that_waits_for_its_retry_keeps_its_version(bench: Bench) -> None:
    await bench.fail(await bench.running())
    await bench.store.sync_definitions([SLOWER])
    await bench.move_clock(HOUR)
    claim = await bench.claim_one()
    assert (claim.attempt, claim.version, claim.definition) == (2, 1, REPORT)


async def test_a_new_job_gets_the_new_version(bench: Bench) -> None:
    await bench.enqueue()
    await bench.store.sync_definitions([SLOWER])
    await bench.enqueue()
    old, new = await bench.claim(2)
    assert (old.version, old.definition, new.version, new.definition) == (1, REPORT, 2, SLOWER)
    assert new.max_attempts == 9


async def test_another_store_learns_of_the_new_version(bench: Bench, second_store: Store) -> None:
    others = second_store.tenant(ACME)
    await others.enqueue([NewJob(definition="report")])
    await bench.store.sync_definitions([SLOWER])
    await others.enqueue([NewJob(definition="report")])
    assert [(claim.version, claim.definition) for claim in await bench.claim()] == [(1, REPORT), (2, SLOWER)]


async def test_the_definition_is_listed_as_inactive(bench: Bench) -> None:
    await bench.store.activate("report", False)
    assert not (await registered(bench.jobs, "report")).active
    assert (await registered(bench.jobs, "email")).active


async def test_a_sync_does_not_make_an_inactive_definition_active(bench: Bench) -> None:
    await bench.store.activate("report", False)
    await bench.store.sync_definitions([SLOWER])
    assert await registered(bench.jobs, "report") == Registered(SLOWER, version=2, active=False)


async def test_an_unknown_definition_can_not_be_activated(bench: Bench) -> None:
    with pytest.raises(UnknownDefinition, match='"reprt"') as refused:
        await bench.store.activate("reprt", True)
    assert 'Did you mean "report"?' in refused.value.happened
    assert refused.value.happened.endswith("Nothing was changed.")


async def test_a_job_of_an_older_version_can_still_end(bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.sync_definitions([SLOWER])
    await bench.succeed(claim)
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_two_definitions_of_one_key_are_refused_together(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="the same key"):
        await bench.store.sync_definitions([Definition("twice"), Definition("twice", max_attempts=1)])
    assert "twice" not in [registered.definition.key for registered in await bench.jobs.definitions()]

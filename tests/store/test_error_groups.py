"""Error groups: failed and dead jobs by their error, listed, found and retried."""

from dataclasses import replace

import pytest
from tests.store.bench import Bench, EngineUnderTest, all_jobs, new_id
from tests.store.test_operations import A_SECOND, CANCEL, RETRY, run
from tests.tenant_kit import ACME, DAY, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.error_group import error_group
from leasehold.model.job import JobId
from leasehold.model.operation import OperationState
from leasehold.model.status import Status
from leasehold.store import ErrorGroup, Filter


async def failed_with(bench: Bench, error: str, *, final: bool = True, definition: str = "report") -> JobId:
    claim = await bench.running(definition=definition, max_attempts=1)
    await bench.fail(claim, error, final=final)
    return claim.job


async def groups(bench: Bench) -> list[ErrorGroup]:
    found = await bench.jobs.error_groups(50, 100)
    assert found.is_whole
    return list(found.groups)


async def test_jobs_with_one_error_are_a_group(bench: Bench) -> None:
    await failed_with(bench, "GET https://a.test/1 timed out after 30 s")
    await bench.move_clock(2 * DAY)
    last = await failed_with(bench, "GET https://a.test/2 timed out after 31 s", final=False)
    await bench.succeeded()
    (group,) = await groups(bench)
    assert group.id == error_group("report", "Unlucky", "GET https://b.test timed out after 1 s")
    assert (group.tenant, group.definition, group.code) == (ACME, "report", "Unlucky")
    assert (group.jobs, group.is_cap, group.recent, group.newest) == (2, False, 1, last)
    assert group.error == "GET https://a.test/2 timed out after 31 s"
    assert group.last_at - group.first_at >= 2 * DAY


async def test_groups_differ_by_definition_and_text(bench: Bench) -> None:
    await failed_with(bench, "no such folder")
    await bench.move_clock(A_SECOND)
    await failed_with(bench, "no such file")
    await bench.move_clock(A_SECOND)
    await failed_with(bench, "no such file", definition="email")
    assert [(group.definition, group.error) for group in await groups(bench)] == [
        ("email", "no such file"),
        ("report", "no such file"),
        ("report", "no such folder"),
    ]


async def test_one_group_can_be_asked_for(bench: Bench) -> None:
    await failed_with(bench, "no such folder")
    await failed_with(bench, "no such file")
    wanted = error_group("report", "Unlucky", "no such file")
    found = await bench.jobs.error_groups(1, 100, wanted)
    assert [group.error for group in found.groups] == ["no such file"]
    assert (await bench.jobs.error_groups(1, 100, "0" * 16)).groups == []


async def test_more_groups_than_asked_for_are_told(bench: Bench) -> None:
    for error in ("a", "b", "c"):
        await failed_with(bench, error)
    found = await bench.jobs.error_groups(2, 100)
    assert (len(found.groups), found.is_whole) == (2, False)


async def test_groups_of_all_tenants_name_each_tenant(bench: Bench, engine: EngineUnderTest) -> None:
    await failed_with(bench, "no such file")
    await failed_with(Bench(engine, OTHER), "no such file")
    wanted = error_group("report", "Unlucky", "no such file")
    for found in (
        await engine.store.error_groups_of_tenants(50, 100),
        await engine.store.error_groups_of_tenants(50, 100, wanted),
    ):
        assert {(group.tenant, group.jobs) for group in found.groups if group.id == wanted} == {(ACME, 1), (OTHER, 1)}
    page = await engine.store.find_all_tenants(Filter(error_group=wanted), None, 10)
    assert {job.tenant for job in page.jobs} == {ACME, OTHER}


@pytest.mark.parametrize("page", [1, 2, 50])
async def test_jobs_of_a_group_are_found_page_by_page(bench: Bench, page: int) -> None:
    jobs = [await failed_with(bench, f"no file {number}", final=number != 1) for number in range(3)]
    await failed_with(bench, "no folder")
    where = Filter(error_group=error_group("report", "Unlucky", "no file 7"))
    assert [job.id for job in await all_jobs(bench.jobs, where, page)] == jobs[::-1]
    only_dead = replace(where, statuses=(Status.DEAD_LETTER,))
    assert [job.id for job in await all_jobs(bench.jobs, only_dead, page)] == [jobs[1]]


async def test_a_retry_of_a_group_leaves_others_alone(bench: Bench) -> None:
    jobs = [await failed_with(bench, f"no file {number}") for number in range(3)]
    other = await failed_with(bench, "no folder")
    where = replace(RETRY.where, error_group=error_group("report", "Unlucky", "no file 7"))
    ended = await run(bench, await bench.store.operations.begin(replace(RETRY, where=where)))
    assert (ended.state, ended.done) == (OperationState.DONE, 3)
    assert [await bench.status(job) for job in [*jobs, other]] == [Status.QUEUED] * 3 + [Status.FAILED]


async def test_named_jobs_are_changed_if_they_can_be(bench: Bench) -> None:
    dead, other = await bench.ended(Status.DEAD_LETTER), await bench.ended(Status.DEAD_LETTER)
    waiting = await bench.enqueue()
    operation = await bench.store.operations.begin(replace(RETRY, jobs=(dead, waiting, new_id())))
    assert (await run(bench, operation)).done == 1
    assert [await bench.status(job) for job in (dead, other)] == [Status.QUEUED, Status.DEAD_LETTER]
    cancel = await bench.store.operations.begin(replace(CANCEL, jobs=(waiting, other)))
    assert (await run(bench, cancel)).done == 1
    assert [await bench.status(job) for job in (waiting, dead)] == [Status.CANCELED, Status.QUEUED]


async def test_jobs_that_ended_after_the_moment_are_left_alone(bench: Bench) -> None:
    before = await bench.ended(Status.DEAD_LETTER)
    moment = await bench.store.now()
    await bench.move_clock(A_SECOND)
    after = await bench.ended(Status.DEAD_LETTER)
    await bench.move_clock(A_SECOND)
    new = replace(RETRY, as_of=moment, reason="provider is back")
    looked = await bench.store.operations.look(new, None, 100, 100)
    assert {job.id: job.later for job in looked.jobs} == {before: False, after: True}
    begun = await bench.store.operations.begin(new)
    ended = await run(bench, begun)
    assert (ended.done, dict(ended.details)) == (1, {"ended_later": 1})
    assert (ended.as_of, ended.reason) == (moment, "provider is back")
    assert await bench.status(after) is Status.DEAD_LETTER


def test_a_cancel_has_no_error_group() -> None:
    with pytest.raises(InvalidInput, match="only ended jobs have an error group"):
        replace(CANCEL, where=replace(CANCEL.where, error_group="0" * 16))

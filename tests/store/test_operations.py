"""Operations on many jobs: found by a filter, changed in batches, resumed by any runner."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.conftest import eventually
from tests.store.bench import Bench, EngineUnderTest, keyed
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.errors import InvalidInput
from leasehold.model.dedupe import Within
from leasehold.model.job import JobId
from leasehold.model.operation import OperationId, OperationKind, OperationState, Pace
from leasehold.model.status import Status
from leasehold.operations import bulk
from leasehold.store import Filter, NewOperation, Operation, Stepped, Store

RETRY = NewOperation(OperationKind.RETRY, ACME, Filter(statuses=(Status.DEAD_LETTER, Status.FAILED)))
CANCEL = NewOperation(OperationKind.CANCEL, ACME, Filter(statuses=(Status.QUEUED, Status.RUNNING)))
A_SECOND = timedelta(seconds=1)


async def run(bench: Bench, operation: Operation) -> Operation:
    """Runs the operation to its end, and moves the clock over its waits.

    Bounded by time, not by steps: a removal waits for all older transactions of the server, those of other tests too.
    """
    ended: Operation | None = None

    async def has_ended() -> bool:
        nonlocal ended
        ended = await step(bench, operation)
        return ended is not None

    await eventually(has_ended, what="the operation ends")
    assert ended is not None
    return ended


async def step(bench: Bench, operation: Operation) -> Operation | None:
    """Runs one step, and moves the clock over its wait. Returns the operation if it has ended."""
    stepped = await bench.store.operations.step(operation.id)
    if stepped.operation is not None and stepped.operation.state.ended:
        return stepped.operation
    if stepped.wait is not None and stepped.wait > timedelta():
        await bench.move_clock(stepped.wait + timedelta(milliseconds=1))
    return None


async def dead_letters(bench: Bench, number: int) -> list[JobId]:
    return [await bench.ended(Status.DEAD_LETTER) for _ in range(number)]


async def statuses(bench: Bench, jobs: Sequence[JobId]) -> set[Status]:
    return {job.status for job in await bench.jobs.get_many(jobs)}


async def test_a_retry_queues_all_matching_jobs_again(bench: Bench) -> None:
    dead, failed = await dead_letters(bench, 2), await bench.ended(Status.FAILED)
    succeeded = await bench.ended(Status.SUCCEEDED)
    ended = await run(bench, await bench.store.operations.begin(RETRY))
    assert (ended.state, ended.done, ended.skipped, ended.refused) == (OperationState.DONE, 3, 0, 0)
    assert await statuses(bench, [*dead, failed]) == {Status.QUEUED}
    assert await bench.status(succeeded) is Status.SUCCEEDED


async def test_a_filter_leaves_other_jobs_alone(bench: Bench) -> None:
    report, email = await bench.ended(Status.FAILED), await bench.ended(Status.FAILED, definition="email")
    only_email = replace(RETRY, where=Filter(statuses=(Status.FAILED,), definitions=("email",)))
    assert (await run(bench, await bench.store.operations.begin(only_email))).done == 1
    assert await bench.status(email) is Status.QUEUED
    assert await bench.status(report) is Status.FAILED


async def test_a_cancel_ends_waiting_jobs_and_asks_running_ones(bench: Bench) -> None:
    running = await bench.enqueue()
    (claim,) = await bench.claim()
    waiting = await bench.enqueue(delay=HOUR)
    ended = await run(bench, await bench.store.operations.begin(CANCEL))
    assert ended.done == 2
    assert await bench.status(waiting) is Status.CANCELED
    record = await bench.jobs.get(running)
    assert record is not None
    assert record.cancel_requested_at is not None
    assert claim.job == running


async def test_a_job_that_ended_later_is_skipped(bench: Bench) -> None:
    operation = await bench.store.operations.begin(RETRY)
    await bench.move_clock(A_SECOND)
    job = await bench.ended(Status.DEAD_LETTER)
    ended = await run(bench, operation)
    assert (ended.done, ended.skipped, dict(ended.details)) == (0, 1, {"ended_later": 1})
    assert await bench.status(job) is Status.DEAD_LETTER


async def test_a_job_whose_key_is_held_is_refused(bench: Bench) -> None:
    await bench.ended(Status.DEAD_LETTER, dedupe=keyed())
    await bench.enqueue(dedupe=keyed())
    ended = await run(bench, await bench.store.operations.begin(RETRY))
    assert (ended.done, ended.refused, dict(ended.details)) == (0, 1, {"duplicate": 1})


async def test_a_pace_spreads_the_batches(bench: Bench) -> None:
    await dead_letters(bench, 3)
    operation = await bench.store.operations.begin(replace(RETRY, pace=Pace(2)))
    first = await bench.store.operations.step(operation.id)
    assert first.operation is not None
    assert first.operation.done == 2
    assert first.wait is not None
    assert timedelta() < first.wait <= A_SECOND
    assert (await bench.store.operations.step(operation.id)).operation is None
    await bench.move_clock(A_SECOND)
    second = await bench.store.operations.step(operation.id)
    assert second.operation is not None
    assert second.operation.done == 3


async def test_another_runner_goes_on_from_the_last_batch(bench: Bench, engine: EngineUnderTest) -> None:
    await dead_letters(bench, 3)
    operation = await bench.store.operations.begin(replace(RETRY, pace=Pace(1)))
    await bench.store.operations.step(operation.id)
    await bench.move_clock(A_SECOND)
    other = await engine.open_again()
    try:
        stepped: Stepped = await other.operations.step()
        assert stepped.operation is not None
        assert stepped.operation.done == 2
    finally:
        await other.close()
    assert (await run(bench, operation)).done == 3


async def test_of_runners_at_once_one_runs_the_batch(bench: Bench, stores: list[Store]) -> None:
    await dead_letters(bench, 4)
    operation = await bench.store.operations.begin(replace(RETRY, pace=Pace(2)))
    stepped = await asyncio.gather(*(store.operations.step(operation.id) for store in stores))
    assert sum(each.operation is not None for each in stepped) == 1
    after = await bench.store.operations.get(operation.id)
    assert after is not None
    assert (after.done, after.skipped, after.refused) == (2, 0, 0)


async def test_an_aborted_operation_changes_no_more_jobs(bench: Bench) -> None:
    jobs = await dead_letters(bench, 2)
    operation = await bench.store.operations.begin(replace(RETRY, pace=Pace(1)))
    await bench.store.operations.step(operation.id)
    assert await bench.store.operations.abort(operation.id) is not None
    await bench.move_clock(A_SECOND)
    await bench.store.operations.step(operation.id)
    ended = await bench.store.operations.get(operation.id)
    assert ended is not None
    assert (ended.state, ended.done) == (OperationState.ABORTED, 1)
    assert sorted(job.status for job in await bench.jobs.get_many(jobs)) == [Status.DEAD_LETTER, Status.QUEUED]
    assert await bench.store.operations.abort(OperationId("01890a5d-ac96-774b-bcce-b30209900000")) is None


async def test_the_rest_follows_a_canary_that_succeeds(bench: Bench) -> None:
    await dead_letters(bench, 3)
    operation = await bench.store.operations.begin(replace(RETRY, canary=True))
    await bench.store.operations.step(operation.id)
    (canary,) = await bench.claim()
    await bench.move_clock(A_SECOND)
    waiting = await bench.store.operations.step(operation.id)
    assert waiting.operation is not None
    assert waiting.operation.done == 1
    await bench.succeed(canary)
    ended = await run(bench, operation)
    assert (ended.state, ended.done, ended.canary_job) == (OperationState.DONE, 3, canary.job)


async def test_a_failed_canary_ends_the_operation(bench: Bench) -> None:
    jobs = await dead_letters(bench, 2)
    operation = await bench.store.operations.begin(replace(RETRY, canary=True))
    await bench.store.operations.step(operation.id)
    await bench.jobs.cancel([job.id for job in await bench.jobs.get_many(jobs)])
    ended = await run(bench, operation)
    assert ended.state is OperationState.FAILED
    assert "canary" in (ended.error or "")
    assert sorted(job.status for job in await bench.jobs.get_many(jobs)) == [Status.CANCELED, Status.DEAD_LETTER]


async def test_a_look_finds_rare_matches_piece_by_piece(bench: Bench) -> None:
    rare = await bench.ended(Status.FAILED, definition="email")
    for _ in range(3):
        await bench.ended(Status.FAILED)
    wanted = replace(RETRY, where=Filter(statuses=(Status.FAILED,), definitions=("email",)))
    found, place, looks = [], None, 0
    while looks == 0 or place is not None:
        looked = await bench.store.operations.look(wanted, place, 2, 10)
        found += [job.id for job in looked.jobs]
        place, looks = looked.place, looks + 1
    assert found == [rare]


async def test_operations_are_listed_newest_first(bench: Bench) -> None:
    first = await bench.store.operations.begin(RETRY)
    second = await bench.store.operations.begin(replace(CANCEL, created_by="ann"))
    page = await bench.store.operations.list(ACME, None, 1)
    assert [each.id for each in page.operations] == [second.id]
    assert page.operations[0].created_by == "ann"
    page = await bench.store.operations.list(None, page.next, 1)
    assert [each.id for each in page.operations] == [first.id]


async def test_a_heartbeat_tells_of_an_operation(bench: Bench) -> None:
    worker = await bench.worker()
    assert (await bench.store.renew(worker, [], HOUR)).next_operation is None
    await bench.store.operations.begin(RETRY)
    told = (await bench.store.renew(worker, [], HOUR)).next_operation
    assert told is not None
    assert told <= timedelta()


def test_an_operation_names_only_statuses_that_it_can_change() -> None:
    with pytest.raises(InvalidInput, match="a retry changes no job that is running"):
        NewOperation(OperationKind.RETRY, ACME, Filter(statuses=(Status.RUNNING,)))


async def test_a_plan_counts_jobs_whose_key_another_one_holds(bench: Bench) -> None:
    first, second = await bench.failed(dedupe=keyed()), await bench.failed(dedupe=keyed())
    window = await bench.failed(dedupe=keyed(Within(DAY), "w"))
    free = await bench.failed()
    planned = await bulk.plan(bench.store, bulk.new_operation(OperationKind.RETRY, ACME, Filter()))
    assert (planned.matching, planned.duplicates) == (4, 1)
    await bench.enqueue(dedupe=keyed(), delay=HOUR)
    assert await bench.jobs.taken_keys([first, second, window, free]) == {first, second}
    planned = await bulk.plan(bench.store, bulk.new_operation(OperationKind.RETRY, ACME, Filter()))
    assert (planned.matching, planned.duplicates) == (4, 2)
    ended = await run(bench, await bench.store.operations.begin(planned.operation))
    assert (ended.done, ended.refused) == (2, 2)

"""Usage in DynamoDB: crashes between any two writes, lost replies, several processes, late claims, and its costs."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from botocore.exceptions import ConnectionClosedError
from tests.dynamodb.fault_injection import Crash, Fault, Faults, crash_after
from tests.dynamodb.raw_table import RawTable
from tests.dynamodb.test_costs import Written
from tests.dynamodb.test_faults import opened
from tests.store.bench import LEASE, REPORT, Bench, EngineUnderTest, keyed
from tests.store.test_operations import run, step
from tests.tenant_kit import ACME, DAY, HOUR, OTHER

from leasehold.engines.dynamodb import finish, hours, ledger, removal
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.dedupe import OnConflict
from leasehold.model.definition import Retention
from leasehold.model.job import JobId, NewJob
from leasehold.model.operation import OperationKind
from leasehold.model.outcome import Canceled, Succeeded, decide, with_cpu
from leasehold.model.status import Status
from leasehold.model.usage import UsageRow
from leasehold.operations import usage
from leasehold.store import NewOperation, Store
from leasehold.store.reclaim import reclaim_orphans
from leasehold.upkeep import Upkeep

T = TypeVar("T")

AT_ONCE = replace(REPORT, retention=Retention(succeeded=timedelta()))
Figures = tuple[int, timedelta]


async def used(bench: Bench) -> UsageRow:
    return (await usage.read(bench.store, bench.tenant)).total


async def figures(bench: Bench) -> Figures:
    total = await used(bench)
    return total.attempts, total.run


async def figures_of(bench: Bench, *jobs: JobId) -> Figures:
    """Adds up the attempts themselves."""
    found = [attempt for job in jobs for attempt in await bench.jobs.attempts(job)]
    runs = [attempt.finished_at - attempt.started_at for attempt in found if attempt.finished_at is not None]
    return len(runs), sum(runs, timedelta())


async def ledgers(table: RawTable) -> list[dict[str, Any]]:
    return [item for item in await table.items() if item["SK"] == "claims"]


@pytest.fixture
async def elsewhere(kit: DynamoTestKit, bench: Bench) -> AsyncIterator[Bench]:
    """A bench in another process, with a worker of its own."""
    store = await kit.open()
    yield Bench(EngineUnderTest(store, kit.open, kit.clock().move))
    await store.close()


# ------------------------------------------------------------------------------------------ crashes and lost replies


async def live(bench: Bench, store: Store, worker: Any) -> None:
    (claim,) = await bench.claim(1, worker, store)
    await bench.move_clock(timedelta(seconds=3))
    await store.finish([(claim, decide(Succeeded(), claim, jitter=0))])
    await store.roll_up()
    await store.leave(worker)


@pytest.mark.parametrize("lost_reply", [False, True])
@pytest.mark.parametrize("writes", range(4))
async def test_a_crash_between_any_two_writes_loses_no_usage(
    kit: DynamoTestKit, bench: Bench, writes: int, lost_reply: bool
) -> None:
    """The writes are the ledger, the claim, the finish, and the move of the usage to the hours."""
    job, worker, faults = await bench.enqueue(), await bench.join(lease=LEASE), Faults()
    async with opened(kit, faults) as store:
        with pytest.raises(Crash), crash_after(faults, writes, lost_reply=lost_reply):
            await live(bench, store, worker)
    assert await figures(bench) == await figures_of(bench, job)
    await bench.move_clock(2 * LEASE)
    await reclaim_orphans(bench.store)
    assert await figures(bench) == await figures_of(bench, job)
    if not (await bench.job(job)).status.final:
        await bench.move_clock(HOUR)
        await bench.succeed(await bench.claim_one())
    await bench.store.roll_up()
    assert await figures(bench) == await figures_of(bench, job)


async def test_the_ledger_of_a_dead_worker_is_moved_and_deleted(bench: Bench, table: RawTable) -> None:
    job = (await bench.running(registration=await bench.join(lease=LEASE), max_attempts=1)).job
    await bench.move_clock(2 * LEASE)
    await reclaim_orphans(bench.store)
    assert await bench.status(job) is Status.DEAD_LETTER
    assert await bench.store.evict(1) == []
    assert await ledgers(table) == []
    assert await figures(bench) == await figures_of(bench, job)


async def test_a_move_whose_reply_is_lost_counts_once(kit: DynamoTestKit, bench: Bench) -> None:
    faults = Faults()
    async with opened(kit, faults) as store:
        await Bench(EngineUnderTest(store, kit.open, kit.clock().move)).succeeded()

        def lose_once(request: Any) -> Fault | None:
            is_move = request.operation == "TransactWriteItems"
            return Fault.LOST_REPLY if is_move and not faults.count[Fault.LOST_REPLY] else None

        faults.script = lose_once
        await store.roll_up()
        assert faults.count[Fault.LOST_REPLY] == 1
    assert (await used(bench)).attempts == 1


async def test_a_claim_after_its_ledger_was_settled_is_refused(kit: DynamoTestKit, bench: Bench) -> None:
    """A worker is paused between the note in its ledger and the claim; meanwhile it is evicted and forgotten."""
    job, worker = await bench.enqueue(), await bench.join(lease=LEASE)
    paused: list[str] = []

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if "in_progress" in str(parameters.get("ExpressionAttributeValues", {}).get(":status")) and not paused:
            paused.append(operation)
            await bench.move_clock(2 * LEASE)
            await reclaim_orphans(bench.store)
        return await send(operation, parameters)

    late = await kit.open_with(intercept)
    claimed = await late.claim(worker, 1)
    await late.close()
    assert (len(paused), list(claimed.claims)) == (1, [])
    await bench.succeed(await bench.claim_one())
    assert await figures(bench) == await figures_of(bench, job)
    assert (await used(bench)).attempts == 1


async def test_a_claim_that_is_in_doubt_stays_in_the_ledger(
    kit: DynamoTestKit, bench: Bench, table: RawTable
) -> None:
    """Its reply is lost, and the job is changed before the repetition, which can't know its own write again."""
    job, worker, lost = await bench.enqueue(), await bench.join(), list[str]()

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        if "in_progress" in str(parameters.get("ExpressionAttributeValues", {}).get(":status")) and not lost:
            lost.append(operation)
            await bench.jobs.cancel([job])
            raise ConnectionClosedError(endpoint_url="injected")
        return answer

    store = await kit.open_with(intercept)
    assert (await store.claim(worker, 1)).claims == []
    await store.roll_up()
    (held,) = await store.held(worker)
    assert not await store.finish([(held, decide(Canceled(), held, jitter=0))])
    await store.roll_up()
    await store.close()
    assert (await used(bench)).attempts == 1


# ------------------------------------------------------------------------------------------------ several processes


async def test_an_attempt_that_another_process_finished_counts(
    bench: Bench, elsewhere: Bench, table: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers over HTTP use several servers. Its details don't fit into the job, and have an item of their own."""
    monkeypatch.setattr(finish, "MOST_IN_JOB", -1)
    claim = await bench.running()
    await bench.move_clock(timedelta(seconds=7))
    await elsewhere.store.finish([(claim, with_cpu(decide(Succeeded(), claim, jitter=0), 1.5))])
    for _ in range(2):
        total = await used(bench)
        assert (total.attempts, total.cpu, total.unknown) == (1, timedelta(seconds=1.5), 0)
        await bench.store.roll_up()
    assert [item["jobs"] for item in await ledgers(table)] == [[]]


async def test_a_server_settles_a_worker_that_began_at_another(
    bench: Bench, elsewhere: Bench, table: RawTable
) -> None:
    """The first server has ended, and the worker finds nothing to claim at the second one."""
    worker = await bench.worker()
    await bench.succeeded()
    assert await elsewhere.claim(1, worker) == []
    for _ in range(2):
        await elsewhere.store.roll_up()
    assert [(item["jobs"], item["usage"]) for item in await ledgers(table)] == [([], [])]
    assert (await used(bench)).attempts == 1
    await bench.store.roll_up()  # it was not the end of that server, after all
    assert (await used(bench)).attempts == 1


async def test_a_refused_finish_adds_nothing(bench: Bench, elsewhere: Bench) -> None:
    claim = await bench.running()
    await elsewhere.succeed(claim)
    await bench.move_clock(HOUR)
    assert await bench.finish_all([(claim, Succeeded())]) == {claim}
    await bench.store.roll_up()
    assert await figures(bench) == await figures_of(bench, claim.job)


async def test_an_attempt_counts_for_the_definition_that_ran(bench: Bench) -> None:
    """Its job waited again, and was replaced by one of another definition."""
    await bench.fail(await bench.running(dedupe=keyed()))
    replacing = replace(keyed(), on_conflict=OnConflict.REPLACE)
    (placed,) = await bench.jobs.enqueue([NewJob(definition="email", dedupe=replacing)])
    assert placed.replaced
    for _ in range(2):
        assert [row.definition for row in (await usage.read(bench.store, ACME)).rows] == ["report"]
        await bench.store.roll_up()


async def test_two_processes_write_the_ledger_of_one_worker(bench: Bench, elsewhere: Bench, table: RawTable) -> None:
    worker, jobs = await bench.worker(), []
    for each in (bench, elsewhere, bench):
        jobs.append(await bench.enqueue())
        assert await each.claimed_jobs(1, worker) == jobs[-1:]
    (found,) = await ledgers(table)
    assert sorted(pk[-36:] for pk in found["jobs"]) == sorted(jobs)


async def test_a_job_is_pruned_once_its_worker_has_added_it_up(bench: Bench, elsewhere: Bench) -> None:
    await bench.store.sync_definitions([AT_ONCE])
    await elsewhere.succeeded()
    assert await bench.store.prune(10) == 0
    assert (await used(bench)).attempts == 1
    await elsewhere.store.roll_up()
    assert await bench.store.prune(10) == 1
    assert (await used(bench)).attempts == 1


async def test_a_removal_waits_until_workers_have_added_up(bench: Bench, elsewhere: Bench, table: RawTable) -> None:
    """Else their usage would be that of a later tenant of the same name."""
    await elsewhere.succeeded()
    operation = await bench.store.operations.begin(NewOperation(OperationKind.DELETE_TENANT, ACME))
    for _ in range(50):
        assert await step(bench, operation) is None
    await elsewhere.store.roll_up()
    await run(bench, operation)
    await bench.store.add_tenant(ACME)
    assert (await used(bench)).attempts == 0
    assert [item for item in await table.items() if item["PK"].startswith("usage#")] == []


async def test_a_removal_waits_for_no_silent_worker(
    bench: Bench, elsewhere: Bench, table: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "LAST_USAGE", 2 * removal.LAST_WRITES)
    await elsewhere.succeeded()
    await run(bench, await bench.store.operations.begin(NewOperation(OperationKind.DELETE_TENANT, ACME)))
    await elsewhere.store.roll_up()
    assert [item for item in await table.items() if item["PK"].startswith("usage#")] == []


@pytest.mark.parametrize("moves_before", [True, False])
async def test_a_move_during_a_read_counts_once(kit: DynamoTestKit, bench: Bench, moves_before: bool) -> None:
    await bench.succeeded()
    moved: list[str] = []

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        is_read = operation == "Query" and "usage#" in str(parameters["ExpressionAttributeValues"])
        if not is_read or moved:
            return await send(operation, parameters)
        moved.append(operation)
        answer = None if moves_before else await send(operation, parameters)
        await bench.store.roll_up()
        return answer or await send(operation, parameters)

    reader = await kit.open_with(intercept)
    found = await usage.read(reader, ACME)
    await reader.close()
    assert (len(moved), found.total.attempts) == (1, 1)


async def test_a_job_that_is_settled_and_pruned_during_a_read_counts(kit: DynamoTestKit, bench: Bench) -> None:
    await bench.store.sync_definitions([AT_ONCE])
    await bench.succeeded()
    pruned: list[int] = []

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if operation == "GetItem" and parameters["Key"]["SK"] == {"S": "job"} and not pruned:
            await bench.running()  # its claim writes the ledger
            pruned.append(await bench.store.prune(10))
        return await send(operation, parameters)

    reader = await kit.open_with(intercept)
    found = await usage.read(reader, ACME)
    await reader.close()
    assert (pruned, found.total.attempts) == ([1], 1)


# ------------------------------------------------------------------------------------------------------------ costs


def test_roll_ups_of_many_workers_are_spread_over_a_minute(store: Store) -> None:
    """Those of one moment would write the same hours, and all but one of them would be repeated."""

    async def in_time(asked: Awaitable[T]) -> T:
        return await asked

    upkeep = Upkeep(store, in_time, lambda _claim, _verdict: None, HOUR)
    pauses = [upkeep.pause_before_roll_up(chance) for chance in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert pauses == [30.0, 45.0, 60.0, 75.0, 90.0]


async def test_adding_up_writes_the_hour_and_the_ledger(kit: DynamoTestKit, bench: Bench) -> None:
    """However many jobs have ended, and nothing at all if none has."""
    written = Written()
    store = await kit.open_with(written.intercept)
    worker = Bench(EngineUnderTest(store, kit.open, kit.clock().move))
    await worker.enqueue_many(20)
    for claim in await worker.claim(20):
        await worker.succeed(claim)
    written.items = 0
    await store.roll_up()
    assert written.items == 2
    written.reads = 0
    await store.roll_up()
    await store.close()
    assert (written.items, written.reads) == (2, 0)
    assert (await used(bench)).attempts == 20


@pytest.mark.parametrize("dies", [False, True])
async def test_more_hours_than_a_transaction_holds_are_moved(
    bench: Bench, table: RawTable, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setattr(hours, "MOST_AT_ONCE", 2)
    worker = await bench.join(lease=DAY)
    for _ in range(5):
        await bench.succeed(await bench.running(registration=worker))
        await bench.move_clock(HOUR)
    assert [len(item["usage"]) for item in await ledgers(table)] == [4]
    if dies:
        await bench.move_clock(2 * DAY)
        await bench.store.evict(1)
    else:
        await bench.store.roll_up()
    assert [item["usage"] for item in await ledgers(table)] == ([] if dies else [[]])
    assert (await usage.read(bench.store, ACME, "7d")).total.attempts == 5


async def test_a_claim_moves_the_hours_of_a_long_ledger(
    bench: Bench, table: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "LARGEST", 300)
    for _ in range(4):
        await bench.succeeded()
        await bench.move_clock(HOUR)
    assert [len(item["usage"]) for item in await ledgers(table)] == [0]
    assert (await used(bench)).attempts == 4


async def test_usage_of_all_tenants_is_that_of_each(bench: Bench, engine: EngineUnderTest) -> None:
    other = Bench(engine, OTHER)
    for each in (bench, other, other):
        await each.succeeded()
    await bench.store.roll_up()
    await bench.succeeded()
    rows = (await usage.read(bench.store, None, by="tenant")).rows
    assert {row.tenant: row.attempts for row in rows} == {ACME: 2, OTHER: 2}

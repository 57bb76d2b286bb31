"""Ledgers under strain: long names, many sums, one that can't be written, and claims that other processes meet."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from tests.dynamodb.fault_injection import Crash, Faults, crash_after
from tests.dynamodb.raw_table import RawTable
from tests.dynamodb.test_faults import opened
from tests.dynamodb.test_usage import AT_ONCE, figures, figures_of, ledgers, used
from tests.store.bench import LEASE, Bench, EngineUnderTest
from tests.tenant_kit import ACME, DAY, HOUR

from leasehold.engines.dynamodb import finish, hours, ledger, settle, tally
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.ledger import MOST_CLAIMS, Entry, Ledger
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.engines.dynamodb.wire import to_wire
from leasehold.model.job import TenantId, WorkerId
from leasehold.operations import usage
from leasehold.store import Registration, Store

LARGEST_ITEM = 400 * 1024
NOW = datetime(2030, 1, 31, 9, tzinfo=UTC)
REFUSED = {"Error": {"Code": "ValidationException", "Message": "Item size has exceeded the maximum allowed size"}}


@dataclass
class Gate:
    """Stands between a store and the table. Refuses moves of the usage of `refused`, and counts transactions."""

    refused: set[str] = field(default_factory=set)
    transactions: int = 0

    async def intercept(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if operation == "TransactWriteItems":
            self.transactions += 1
            if any(f"worker#{worker}" in str(parameters) for worker in self.refused):
                raise ClientError(REFUSED, operation)
        return await send(operation, parameters)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def gated(kit: DynamoTestKit, gate: Gate, bench: Bench) -> AsyncIterator[Bench]:
    """A bench whose requests pass the gate."""
    store = await kit.open_with(gate.intercept)
    yield Bench(EngineUnderTest(store, kit.open, kit.clock().move))
    await store.close()


async def ended_by(bench: Bench, lease: timedelta = DAY, store: Store | None = None) -> Registration:
    """Returns a worker with an attempt that has ended and stands in its ledger."""
    worker = await bench.join(lease=lease, store=store)
    job = await bench.enqueue()
    (claim,) = await bench.claim(1, worker, store)
    assert claim.job == job
    await bench.succeed(claim)
    return worker


# ------------------------------------------------------------------------------------------------------------ sizes


def wire_size(value: Mapping[str, Any]) -> int:
    """Returns the bytes of a value by the rules of DynamoDB."""
    ((kind, held),) = value.items()
    if kind == "L":
        return 3 + sum(1 + wire_size(each) for each in held)
    return len(held.encode()) if kind == "S" else len(held) // 2 + 2


def item_size(ledger: Ledger) -> int:
    return sum(len(name) + wire_size(to_wire(value)) for name, value in ledger.attributes().items())


def wide(number: int) -> str:
    return f"{number:04}" + 96 * "\N{SNAIL}"


def wide_entry(number: int) -> Entry:
    return f"tenant#{wide(number)}#job#{number:036}", 2**40 + number


def wide_end(number: int) -> tally.Ended:
    return tally.ended(TenantId(wide(number)), wide(number), NOW, NOW + DAY, '{"cpu_seconds": 86400.5}')


@pytest.mark.parametrize("largest", [0, ledger.LARGEST], ids=["a move", "a claim"])
@pytest.mark.parametrize("carried", [0, 200])
def test_a_ledger_of_the_longest_names_fits_into_an_item(carried: int, largest: int) -> None:
    """It has as many entries as it may, and all are over."""
    entries = MOST_CLAIMS if not carried else 50
    over = {wide_entry(number): wide_end(number) for number in range(entries)}
    before = Ledger(frozenset(over), tally.add(wide_end(1000 + number) for number in range(carried)))
    begun = [wide_entry(2000 + number) for number in range(100)]
    left, moved, is_last = dict(over), 0, False
    assert item_size(before) < LARGEST_ITEM
    while not is_last:
        step = before.step(left, begun, largest)
        assert item_size(step.ledger) <= step.ledger.size + 1000
        assert item_size(step.ledger) < LARGEST_ITEM
        assert len(step.moved) <= hours.MOST_AT_ONCE
        left = {entry: ended for entry, ended in left.items() if entry not in step.over}
        before, moved, is_last = step.ledger, moved + len(step.moved), step.is_last
    assert (before.entries, moved + len(before.usage)) == (frozenset(begun), entries + carried)


@pytest.mark.parametrize("dies", [False, True])
async def test_more_ends_than_a_write_takes_all_count(
    bench: Bench, table: RawTable, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    worker = await bench.join(lease=DAY)
    await bench.enqueue_many(5)
    for claim in await bench.claim(5, worker):
        await bench.succeed(claim)
    monkeypatch.setattr(ledger, "ENDS_AT_ONCE", 2)
    if dies:
        await bench.move_clock(2 * DAY)
        await bench.store.evict(1)
    else:
        await bench.store.roll_up()
    assert [(item["jobs"], item["usage"]) for item in await ledgers(table)] == ([] if dies else [([], [])])
    assert (await usage.read(bench.store, ACME, "7d")).total.attempts == 5


# ----------------------------------------------------------------------------------------- one ledger and the others


async def test_one_ledger_that_cannot_be_written_stops_no_heartbeat(
    bench: Bench, gated: Bench, gate: Gate, table: RawTable
) -> None:
    bad, _ = await ended_by(bench, LEASE), await ended_by(bench, LEASE)
    beating = await gated.join(lease=DAY)
    await bench.move_clock(2 * LEASE)
    gate.refused.add(bad.worker)
    assert (await gated.store.renew(beating, (), DAY)).alive
    workers = [bad.worker, beating.worker]
    assert sorted(item["PK"] for item in await ledgers(table)) == sorted(f"worker#{each}" for each in workers)


async def test_a_worker_that_cannot_add_up_stops_no_other(gated: Bench, gate: Gate, table: RawTable) -> None:
    gate.refused.add((await ended_by(gated)).worker)
    other = await ended_by(gated)
    await gated.store.roll_up()
    (found,) = [item for item in await ledgers(table) if item["PK"] == f"worker#{other.worker}"]
    assert (found["jobs"], found["usage"]) == ([], [])
    assert (await used(gated)).attempts == 2


async def test_orphans_are_told_before_usage_is_added_up(bench: Bench, gated: Bench, gate: Gate) -> None:
    await ended_by(bench, LEASE)
    held = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(2 * LEASE)
    assert [claim.job for claim in await gated.store.evict(10)] == [held.job]
    assert gate.transactions == 0


async def test_a_heartbeat_tells_of_orphans_beside_a_bad_ledger(bench: Bench, gated: Bench, gate: Gate) -> None:
    gate.refused.add((await ended_by(bench, LEASE)).worker)
    await bench.running(registration=await bench.join(lease=LEASE))
    beating = await gated.join(lease=DAY)
    await bench.move_clock(2 * LEASE)
    assert (await gated.store.renew(beating, (), DAY)).orphans


async def test_a_heartbeat_without_time_for_usage_tells_of_orphans(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.running(registration=await bench.join(lease=LEASE))
    beating = await bench.join(lease=DAY)
    await bench.move_clock(2 * LEASE)

    async def out_of_time(_fleet: Registrations, _gone: Sequence[WorkerId]) -> None:
        raise TimeoutError

    monkeypatch.setattr(Registrations, "settle", out_of_time)
    assert (await bench.store.renew(beating, (), DAY)).orphans


async def test_a_worker_has_left_before_its_usage_is_added_up(kit: DynamoTestKit, bench: Bench) -> None:
    """It has a few seconds to leave. Transactions that meet others take longer."""
    begun = asyncio.Event()

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if operation == "TransactWriteItems" and "usage#" in str(parameters):
            begun.set()
            await asyncio.Event().wait()
        return await send(operation, parameters)

    store = await kit.open_with(intercept)
    leaving = asyncio.create_task(store.leave(await ended_by(bench_of(store, kit))))
    await begun.wait()
    leaving.cancel()
    await asyncio.wait([leaving])
    await store.close()
    assert await bench.store.workers() == []
    assert (await used(bench)).attempts == 1


def bench_of(store: Store, kit: DynamoTestKit) -> Bench:
    return Bench(EngineUnderTest(store, kit.open, kit.clock().move))


async def test_a_worker_that_leaves_adds_up_its_usage(bench: Bench, table: RawTable) -> None:
    await bench.store.leave(await ended_by(bench))
    assert await ledgers(table) == []
    assert len([item for item in await table.items() if item["PK"] == f"usage#{ACME}"]) == 1


# ----------------------------------------------------------------------------------------------------------- claims


async def test_a_claim_leaves_usage_to_the_next_roll_up(gated: Bench, gate: Gate, table: RawTable) -> None:
    """Else the claims of all workers would write the same hours, and wait for each other."""
    for _ in range(60):
        await gated.succeeded()
        await gated.move_clock(HOUR)
    gate.transactions = 0
    await gated.running()
    assert gate.transactions == 0
    assert [len(item["usage"]) for item in await ledgers(table)] == [60]


async def test_a_bar_leaves_the_claim_of_another_as_it_was(kit: DynamoTestKit, bench: Bench) -> None:
    """The reply to the claim is lost. Before it is repeated, the ledger of a dead worker with the job is settled."""
    job, dead, faults = await bench.enqueue(), await bench.join(lease=LEASE), Faults()
    async with opened(kit, faults) as store:
        with pytest.raises(Crash), crash_after(faults, 1):
            await store.claim(dead, 1)
    lost: list[str] = []

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        if "in_progress" in str(parameters.get("ExpressionAttributeValues", {}).get(":status")) and not lost:
            lost.append(operation)
            await bench.move_clock(2 * LEASE)
            await bench.store.evict(1)
            raise ConnectionClosedError(endpoint_url="injected")
        return answer

    late = await kit.open_with(intercept)
    claimed = await late.claim(await bench.join(lease=DAY), 1)
    await late.close()
    assert (len(lost), [claim.job for claim in claimed.claims]) == (1, [job])


async def test_a_full_worker_gets_nothing_from_another_server(
    kit: DynamoTestKit, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ledger, settle):
        monkeypatch.setattr(module, "MOST_CLAIMS", 2)
    worker = await bench.worker()
    await bench.enqueue_many(4)
    assert len(await bench.claim(2, worker)) == 2
    store = await kit.open()
    claimed = await store.claim(worker, 2)
    await store.close()
    assert list(claimed.claims) == []


# ---------------------------------------------------------------------------------------------------------- figures


def test_an_attempt_that_ends_before_its_start_took_no_time() -> None:
    """The clocks of two servers differ."""
    _, figures = tally.ended(ACME, "report", NOW, NOW - timedelta(seconds=1), None)
    assert (figures.attempts, figures.run) == (1, 0)


async def test_an_attempt_that_is_pruned_during_a_read_counts(
    kit: DynamoTestKit, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt has an item of its own, which is deleted after the job was read."""
    monkeypatch.setattr(finish, "MOST_IN_JOB", -1)
    await bench.store.sync_definitions([AT_ONCE])
    job = await bench.succeeded()
    pruned: list[int] = []
    expected = await figures_of(bench, job)

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if operation == "Query" and "attempt#" in str(parameters) and not pruned:
            pruned.append(0)
            await bench.running()  # its claim writes the ledger
            pruned.append(await bench.store.prune(10))
        return await send(operation, parameters)

    reader = await kit.open_with(intercept)
    found = await figures(bench_of(reader, kit))
    await reader.close()
    assert (pruned, found) == ([0, 1], expected)

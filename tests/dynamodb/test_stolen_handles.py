"""Keys begin with their tenant: a handle that has the ids of another tenant reaches none of its items."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.dynamodb.raw_table import RawTable
from tests.store.bench import KEY, Bench, keyed
from tests.store.event_kit import FOLDER, rule
from tests.tenant_kit import HOUR, OTHER

from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.errors import InvalidInput
from leasehold.model.event import EventId, NewEvent
from leasehold.model.job import LogLine, NewJob
from leasehold.model.limits import Pause
from leasehold.model.trigger import Trigger, TriggerId
from leasehold.store import CancelAnswer, Filter, RescheduleAnswer, RetryAnswer, Store

OWN = f"tenant#{OTHER}#"
# Partitions that have no item of a tenant's data: names of tenants and definitions, limits, workers, shared triggers.
SHARED = re.compile(r"catalog|control|fleet|meta|definition#.+|all-tenants#triggers")
_PARTITION = re.compile(r"#(PK|\w+_pk) = :(\w+)")


def partitions(operation: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields index, partition and sort key of everything that a request reads or writes; a scan has no partition."""
    match operation:
        case "Query":
            named = _PARTITION.search(parameters["KeyConditionExpression"])
            assert named is not None, parameters
            yield parameters.get("IndexName", ""), parameters["ExpressionAttributeValues"][f":{named[2]}"]["S"], ""
        case "BatchGetItem":
            for wanted in parameters["RequestItems"].values():
                for key in wanted["Keys"]:
                    yield "", key["PK"]["S"], key["SK"]["S"]
        case "TransactWriteItems":
            for write in parameters["TransactItems"]:
                for name, one in write.items():
                    yield from partitions(f"{name}Item", one)
        case "GetItem" | "UpdateItem" | "DeleteItem" | "ConditionCheckItem" | "CheckItem" | "PutItem":
            key = parameters["Item" if operation == "PutItem" else "Key"]
            yield "", key["PK"]["S"], key["SK"]["S"]
        case _:
            raise AssertionError(f"{operation} names no partition")


async def steal(store: Store, bench: Bench, trigger: Trigger, event: EventId) -> None:
    """Uses every verb of the other tenant's handles with ids of the bench's tenant."""
    jobs, triggers, events = store.tenant(OTHER), store.triggers(OTHER), store.events(OTHER)
    ids = [job.id for job in (await bench.jobs.find(Filter(), None, 10)).jobs]
    assert len(ids) == 3
    assert await jobs.get_many(ids) == []
    for job in ids:
        assert await jobs.attempts(job) == []
        assert await jobs.lines(job, 1) == []
        assert await jobs.last_lines(job, 0, 10) == []
        assert await jobs.facts(job) is None
        assert await jobs.wait_until_final(job, timedelta()) is None
    assert (await jobs.find(Filter(), ids[0], 10)).jobs == []
    assert set((await jobs.counts(10)).values()) == {0}
    assert await jobs.oldest_queued() is None
    assert set((await jobs.cancel(ids)).values()) == {CancelAnswer.UNKNOWN}
    assert set((await jobs.retry(dict.fromkeys(ids, 1))).values()) == {RetryAnswer.UNKNOWN}
    assert set((await jobs.reschedule(ids, HOUR)).values()) == {RescheduleAnswer.UNKNOWN}
    assert await triggers.get(trigger.id) is None
    assert await triggers.list(10) == []
    assert await triggers.search(trigger.rule.label, trigger.id[-8:], 10) == []
    assert await triggers.change(trigger, trigger.rule) is None
    assert await triggers.pause(trigger.id, Pause("stolen")) is None
    assert await triggers.delete(trigger.id) is False
    assert await triggers.decisions(trigger.id, 10) == []
    assert await events.list(10) == []
    assert await events.holders([KEY]) == {}
    # An id and a key that the other tenant has are free here.
    placed = await jobs.enqueue([NewJob(definition="report", id=ids[0], dedupe=keyed())])
    assert [each.created for each in placed] == [True]
    assert (await events.emit(NewEvent(FOLDER, {}, id=event))).created


async def test_a_stolen_handle_asks_by_its_own_tenant_alone(
    bench: Bench, kit: DynamoTestKit, table: RawTable
) -> None:
    """Every key of every request begins with the handle's tenant, or is in a partition without data of tenants."""
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(1, "a line"))])
    await bench.fail(claim, final=True)
    await bench.enqueue(dedupe=keyed())
    trigger = await bench.store.triggers(bench.tenant).add(rule())
    emitted = await bench.store.events(bench.tenant).emit(NewEvent(FOLDER, {}))
    before = {(item["PK"], item["SK"]): repr(item) for item in await table.items()}
    asked: list[tuple[str, str, str]] = []

    async def note(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        asked.extend(partitions(operation, parameters))
        return await send(operation, parameters)

    store = await kit.open_with(note)
    await steal(store, bench, trigger, emitted.id)
    await store.close()
    for index, partition, sort in asked:
        assert partition.startswith(OWN) or (SHARED.fullmatch(partition) and not index), (index, partition)
        assert f"tenant#{bench.tenant}" not in sort
    assert {index for index, _, _ in asked} == {"", "listing"}
    after = {(item["PK"], item["SK"]): repr(item) for item in await table.items()}
    assert {key: after[key] for key in before} == before


async def test_an_id_is_not_a_part_of_a_key_as_it_is(bench: Bench) -> None:
    """With this id, the partition would be that of a job whose tenant is named `acme#trigger#x`."""
    job = await bench.enqueue()
    with pytest.raises(InvalidInput):
        await bench.store.triggers(bench.tenant).decisions(TriggerId(f"x#job#{job}"), 10)

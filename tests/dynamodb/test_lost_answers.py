"""Answers that never came: a worker finds its claims again, and an enqueue its job, by items that were written."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError
from tests.dynamodb.fault_injection import Crash
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.ledger import ledger_key
from leasehold.engines.dynamodb.table import Delete
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.job import NewJob
from leasehold.model.status import Status


async def test_an_enqueue_finds_its_job_that_was_claimed_meanwhile(kit: DynamoTestKit, bench: Bench) -> None:
    """A worker takes the job between the lost reply and the repeated request."""
    registration, lost = await bench.worker(), asyncio.Event()

    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        if operation == "PutItem" and parameters["Item"]["SK"] == {"S": "job"} and not lost.is_set():
            lost.set()
            assert len(await bench.claim(1, registration)) == 1
            raise ConnectionClosedError(endpoint_url="injected")
        return answer

    producer = await kit.open_with(intercept)
    (placed,) = await producer.tenant(ACME).enqueue([NewJob(definition="report")])
    await producer.close()
    assert (placed.created, await bench.status(placed.id)) == (True, Status.RUNNING)


async def test_a_claim_that_was_never_answered_is_held(kit: DynamoTestKit, bench: Bench) -> None:
    async def intercept(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        if "in_progress" in str(parameters.get("ExpressionAttributeValues", {}).get(":status")):
            raise Crash
        return answer

    job = await bench.enqueue()
    registration = await bench.join(lease=LEASE)
    store = await kit.open_with(intercept)
    with pytest.raises(Crash):
        await store.claim(registration, 1)
    await store.close()
    (held,) = await bench.store.held(registration)
    assert held.job == job
    await bench.move_clock(2 * LEASE)
    assert (await bench.store.renew(await bench.worker(), [], HOUR)).orphans
    assert list(await bench.store.evict(10)) == [held]


async def test_a_lock_that_ran_out_is_found_without_a_registration(bench: Bench) -> None:
    """No ledger tells of the claim, as if an operator had deleted it: the due index shows the end of its lock."""
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    store: Any = bench.store
    await bench.move_clock(2 * LEASE)
    (gone,) = await store._registrations.end_expired(await store.now())
    await store._table.delete(Delete(ledger_key(gone)))
    assert list(await bench.store.evict(10)) == []
    assert await bench.claim() == []
    assert list(await bench.store.evict(10)) == [claim]

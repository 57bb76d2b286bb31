"""Heartbeats come first: a lease is renewed while everything else is throttled or gets no answer."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.conftest import PATIENCE, eventually
from tests.dynamodb.fault_injection import Fault, Faults
from tests.store.bench import REPORT, Bench
from tests.tenant_kit import HOUR, SECOND

from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.status import Status
from leasehold.store import Store
from leasehold.worker import Handlers, Job, Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases


async def test_a_throttled_look_takes_no_renewal_back(kit: DynamoTestKit, bench: Bench) -> None:
    """The looks of a heartbeat are queries. All of them are throttled here."""
    faults = Faults(script=lambda request: Fault.THROTTLED if request.operation == "Query" else None)
    claim = await bench.running()
    store = await kit.open_with(faults.intercept)
    renewal = await store.renew(await bench.worker(), [claim], 2 * SECOND)
    await store.close()
    assert (renewal.alive, renewal.lost, renewal.orphans, renewal.next_due) == (True, frozenset(), False, None)
    assert faults.count[Fault.THROTTLED] > 0
    record = await bench.job(claim.job)
    assert record.lease_expires_at is not None
    assert record.lease_expires_at - await bench.store.now() < 2 * SECOND


class Network:
    """Stores of one worker: the first is that of its claims and finishes, the second that of its heartbeat."""

    def __init__(self, kit: DynamoTestKit) -> None:
        self._kit = kit
        self._opened = 0
        self.is_dead = asyncio.Event()
        self.healed = asyncio.Event()
        self.beats = 0

    async def open(self) -> Store:
        self._opened += 1
        return await self._kit.open_with(self._claims if self._opened == 1 else self._heartbeats)

    async def _claims(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        """While the network is dead, no request gets an answer."""
        if self.is_dead.is_set():
            await self.healed.wait()
        return await send(operation, parameters)

    async def _heartbeats(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        self.beats += self.is_dead.is_set() and "lease_expires_at" in str(parameters)
        return answer


async def test_heartbeats_renew_while_other_requests_hang(kit: DynamoTestKit, bench: Bench) -> None:
    """A heartbeat has connections of its own, so claims and finishes that wait for theirs don't delay it."""
    network, started, may_end = Network(kit), asyncio.Event(), asyncio.Event()
    handlers = Handlers()

    @handlers.add(REPORT)
    async def report(job: Job, payload: dict[str, Any]) -> None:
        started.set()
        await may_end.wait()

    lease = timedelta(seconds=3)
    settings = WorkerSettings(leases=Leases(busy=lease, idle=lease), fallback=HOUR, tenants=(bench.tenant,))
    worker = Worker(network.open, handlers, settings)
    working = asyncio.create_task(worker.run())
    job = await bench.enqueue()
    await asyncio.wait_for(started.wait(), PATIENCE.total_seconds())
    network.is_dead.set()

    async def beaten_for_longer_than_a_lease() -> bool:
        return network.beats >= 5

    await eventually(beaten_for_longer_than_a_lease, what="five heartbeats, a third of a lease apart")
    assert (await bench.job(job)).attempt == 1
    network.healed.set()
    may_end.set()
    assert (await bench.jobs.wait_until_final(job, PATIENCE)) is not None
    worker.stop()
    await working
    assert (await bench.status(job), (await bench.job(job)).attempt) == (Status.SUCCEEDED, 1)

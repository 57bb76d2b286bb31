"""Jobs on the DynamoDB emulator: their rate, which is the emulator's, and the requests of a job, which are ours."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from bench.stage import Stage
from bench.systems import OURS
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.emulator import emulator
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.model.dedupe import Dedupe, WhileActive
from leasehold.model.definition import Definition
from leasehold.model.dynamodb_capacity import CLAIM, ENQUEUE, FINISH, Load, units_of
from leasehold.model.job import NewJob, tenant_id
from leasehold.model.outcome import Succeeded, decide
from leasehold.store import Registration, Store, Subscription, WorkerFacts

TENANT = tenant_id("tenant-00000")
TITLE = "dynamodb"
AT_ONCE = 10
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}


class DynamoJobs:
    """Ours: jobs that succeed at their first attempt, one by one and in claims of ten, with and without a key."""

    name, once, compares = TITLE, True, False

    async def round(self, stage: Stage) -> None:
        async with stage.attempt(self.name, OURS):
            with tempfile.TemporaryDirectory(prefix="bench-") as folder, emulator(Path(folder), keep=False) as server:
                for kind, keyed in (("plain", False), ("with a key", True)):
                    engine = DynamoEngine(server.url_for(f"bench-{kind.replace(' ', '-')}"))
                    await engine.prepare()
                    await self._measure(stage, engine, kind, keyed)

    async def _measure(self, stage: Stage, engine: DynamoEngine, kind: str, keyed: bool) -> None:
        jobs = stage.sizes.dynamodb
        counted, took = await count_requests(engine, jobs, keyed)
        figures = {"jobs/s on the emulator": jobs / took, **counted, "write units": units(keyed)}
        for figure, value in figures.items():
            stage.book.add(f"{TITLE}, {kind}, {figure}", OURS, value)


async def count_requests(engine: DynamoEngine, jobs: int, keyed: bool) -> tuple[dict[str, float], float]:
    """Runs jobs, and returns the requests and items that each took, by kind, and the seconds of all."""
    sent: Counter[str] = Counter()

    async def count(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        sent[operation] += 1
        if operation == "TransactWriteItems":
            sent["items"] += sum("ConditionCheck" not in each for each in parameters["TransactItems"])
        elif operation in WRITES:
            sent["items"] += 1
        return await send(operation, parameters)

    engine.intercept = count
    store = await engine.open()
    try:
        await store.sync_definitions([Definition("measured")])
        registration = await store.join(Subscription(("measured",)), WorkerFacts("bench", 1), timedelta(minutes=30))
        await run(store, registration, AT_ONCE, keyed)  # the tenant and the definition are known from then on
        sent.clear()
        began = monotonic()
        await run(store, registration, jobs, keyed)
        took = monotonic() - began
    finally:
        await store.close()
    transactions, items = sent["TransactWriteItems"], sent.pop("items")
    writes = sum(sent[operation] for operation in WRITES)
    counted = {
        "reads": sent.total() - writes - transactions,
        "writes": writes,
        "transactions": transactions,
        "items written": items,
    }
    return {name: value / jobs for name, value in counted.items()}, took


def units(keyed: bool) -> float:
    """Returns the write units of a job without a payload until it has ended, with its index entries and transactions.

    An emulator counts none, so they are computed as `leasehold capacity` does. The worker's note is one for each
    claim.
    """
    load = Load(rate=1, payload=2, dedupe=keyed)
    return sum(units_of(step, load) for step in (ENQUEUE, CLAIM, FINISH)) + 1 / AT_ONCE


async def run(store: Store, registration: Registration, count: int, keyed: bool) -> None:
    """Enqueues jobs, and claims and finishes them by tens."""
    for number in range(count):
        dedupe = Dedupe(f"{count}-{number}", WhileActive()) if keyed else None
        await store.tenant(TENANT).enqueue([NewJob(definition="measured", dedupe=dedupe)])
    left = count
    while left:
        claims = (await store.claim(registration, AT_ONCE)).claims
        await store.finish([(claim, decide(Succeeded(), claim, jitter=0)) for claim in claims])
        left -= len(claims)
        await asyncio.sleep(0)

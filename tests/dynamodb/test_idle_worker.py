"""The requests of an idle worker, the read units that they take, and the settings in the URL that bound them."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.dynamodb.idle_looks import looking
from tests.store.bench import Bench, EngineUnderTest
from tests.tenant_kit import HOUR

from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.engines.dynamodb.urls import TableAddress
from leasehold.model.dynamodb_capacity import READ_UNIT
from leasehold.store import Registration, Store
from leasehold.worker.heartbeat import Leases
from leasehold.worker.listener import FALLBACK

PAGE = Path(__file__).parents[2] / "docs/explanation/dynamodb-capacity.md"
READS = {"GetItem", "Query"}


class Reads:
    """Counts requests, and adds up the read units of their answers, by the published rules."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.limits: set[int | None] = set()
        self.units = 0.0

    async def intercept(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        answer = await send(operation, parameters)
        self.requests[operation] += 1
        if operation in READS:
            found = answer.get("Items") or ([answer["Item"]] if answer.get("Item") else [])
            size = sum(len(orjson.dumps(item)) for item in found)  # a little more than DynamoDB counts
            self.units += max(1, ceil(size / READ_UNIT)) * (1.0 if parameters.get("ConsistentRead") else 0.5)
        if parameters.get("IndexName") == "due":
            self.limits.add(parameters.get("Limit"))
        return answer

    def forget(self) -> None:
        self.requests.clear()
        self.limits.clear()
        self.units = 0.0


@pytest.fixture
def reads() -> Reads:
    return Reads()


@pytest.fixture
async def counted(kit: DynamoTestKit, reads: Reads, bench: Bench) -> AsyncIterator[Store]:
    """A store whose requests are counted, on a table with definitions."""
    opened = await kit.open_with(reads.intercept)
    yield opened
    await opened.close()


@pytest.fixture
async def heartbeats(kit: DynamoTestKit, reads: Reads, bench: Bench) -> AsyncIterator[Store]:
    """The store of a worker's heartbeats, which is another one than that of its claims."""
    opened = await kit.open_with(reads.intercept)
    yield opened
    await opened.close()


async def idle(store: Store, kit: DynamoTestKit, *definitions: str) -> Registration:
    """A worker that has found nothing once: all that is remembered is known from then on."""
    registration = await Bench(EngineUnderTest(store, kit.open, kit.clock().move)).join(*definitions)
    assert (await store.claim(registration, 10)).claims == ()
    return registration


async def read_units(
    monkeypatch: pytest.MonkeyPatch, store: Store, heartbeats: Store, registration: Registration, reads: Reads
) -> dict[str, float]:
    """Returns the read units of each thing that an idle worker does, by its name on the page."""
    units = {}
    await heartbeats.renew(registration, [], Leases().idle, look=True, probe=True)
    reads.forget()
    async with looking(monkeypatch, store, registration, looks=1):
        units["look"] = reads.units
    reads.forget()
    assert (await store.claim(registration, 10)).claims == ()
    units["claim"] = reads.units
    reads.forget()
    assert (await heartbeats.renew(registration, [], Leases().idle, look=True, probe=True)).alive
    units["heartbeat"] = reads.units
    return units


def told() -> dict[str, list[float]]:
    """Returns the numbers of the page's table of an idle worker, by the name of each row."""
    _, _, section = PAGE.read_text().partition("## Reads of an idle worker")
    rows = re.findall(r"^\| (\w+) \|(.+)\|$", section, re.MULTILINE)
    return {
        name: [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*", cells)] for name, cells in rows
    }


async def test_the_docs_have_the_read_units_of_an_idle_hour(
    monkeypatch: pytest.MonkeyPatch, counted: Store, heartbeats: Store, kit: DynamoTestKit, reads: Reads
) -> None:
    registration = await idle(counted, kit, "report")
    units = await read_units(monkeypatch, counted, heartbeats, registration, reads)
    every = {"look": TableAddress("any").poll, "claim": FALLBACK, "heartbeat": Leases().idle / 3}
    times = {name: HOUR / each for name, each in every.items()}
    expected = {name: [units[name], times[name], units[name] * times[name]] for name in units}
    assert told() == {**expected, "together": [sum(row[-1] for row in expected.values())]}


async def test_a_further_definition_adds_its_shards_only(
    monkeypatch: pytest.MonkeyPatch, counted: Store, heartbeats: Store, kit: DynamoTestKit, reads: Reads
) -> None:
    one = await read_units(monkeypatch, counted, heartbeats, await idle(counted, kit, "report"), reads)
    two = await read_units(monkeypatch, counted, heartbeats, await idle(counted, kit, "report", "email"), reads)
    shards = 4 * 0.5
    assert {name: two[name] - one[name] for name in one} == {
        "look": shards,
        "claim": 2 * shards,
        "heartbeat": 2 * shards,
    }


async def test_an_idle_look_asks_each_shard_and_the_holds(
    monkeypatch: pytest.MonkeyPatch, counted: Store, kit: DynamoTestKit, reads: Reads
) -> None:
    registration = await idle(counted, kit, "report")
    reads.forget()
    async with looking(monkeypatch, counted, registration, looks=1):
        assert reads.requests == {"GetItem": 1, "Query": 4}


async def test_an_idle_heartbeat_writes_one_item(counted: Store, kit: DynamoTestKit, reads: Reads) -> None:
    registration = await idle(counted, kit, "report")
    reads.forget()
    await counted.renew(registration, [], Leases().idle, look=True, probe=True)
    assert reads.requests.keys() - READS == {"UpdateItem"}
    assert reads.requests["UpdateItem"] == 1


async def test_the_items_of_the_url_are_the_limit_of_a_look(database_url: str, bench: Bench, reads: Reads) -> None:
    kit = DynamoEngine(f"{database_url}&items=3").test_kit()
    store = await kit.open_with(reads.intercept)
    registration = await idle(store, kit)
    await bench.enqueue_many(10)
    reads.forget()
    assert len((await store.claim(registration, 1)).claims) == 1
    assert reads.limits == {3}
    await store.close()


async def test_the_poll_of_the_url_bounds_the_pauses_when_idle(
    monkeypatch: pytest.MonkeyPatch, database_url: str, bench: Bench
) -> None:
    kit = DynamoEngine(f"{database_url}&poll=0.3").test_kit()
    store = await kit.open()
    async with looking(monkeypatch, store, await idle(store, kit), looks=5) as pauses:
        assert pauses == [0.05, 0.1, 0.2, 0.3, 0.3]
    await store.close()

"""The items that a job's way writes, the reads of an idle worker, and the docs of both."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.measures.dynamodb import count_requests, units
from tests.store.bench import Bench, EngineUnderTest, keyed
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.engines.dynamodb import administration
from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.clock import SystemClock
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.outcome import Raised
from leasehold.model.status import Status


class Written:
    """Counts the items that requests write."""

    def __init__(self) -> None:
        self.items = 0
        self.reads = 0

    async def intercept(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        if operation == "TransactWriteItems":
            self.items += sum("ConditionCheck" not in write for write in parameters["TransactItems"])
        elif operation in ("PutItem", "UpdateItem", "DeleteItem"):
            self.items += 1
        else:
            self.reads += 1
        return await send(operation, parameters)


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
async def counted(kit: DynamoTestKit, written: Written, bench: Bench) -> AsyncIterator[Bench]:
    """A bench whose tenant and worker are known already."""
    store = await kit.open_with(written.intercept)
    counted = Bench(EngineUnderTest(store, kit.open, kit.clock().move))
    await counted.succeeded()
    written.items = 0
    yield counted
    await store.close()


async def test_a_job_that_succeeds_at_once_writes_four_items(counted: Bench, written: Written) -> None:
    await counted.succeeded()
    assert written.items == 4


@pytest.mark.parametrize("dedupe", [keyed(), Dedupe("other", Within(HOUR))], ids=["while active", "window"])
async def test_a_job_with_a_key_writes_five_items(counted: Bench, written: Written, dedupe: Dedupe) -> None:
    await counted.succeeded(dedupe=dedupe)
    assert written.items == 5


async def test_a_batch_is_written_down_by_one_item(counted: Bench, written: Written) -> None:
    await counted.enqueue_many(20)
    claims = await counted.claim(20)
    for claim in claims:
        await counted.succeed(claim)
    assert written.items == 3 * 20 + 1


async def test_a_retry_writes_one_item_for_its_attempt(counted: Bench, written: Written) -> None:
    claim = await counted.running()
    written.items = 0
    await counted.finish(claim, Raised("Unlucky", "no jitter"))
    assert written.items == 2


async def test_an_idle_look_writes_nothing(counted: Bench, written: Written) -> None:
    registration = await counted.worker()
    written.reads = 0
    assert (await counted.store.claim(registration, 10)).claims == ()
    assert written.items == 0
    # Four shards of two definitions, for due jobs and for the next one, the holds and the registration.
    assert written.reads == 2 * 4 * 2 + 2


@pytest.mark.parametrize(
    ("keyed", "name"), [(False, "without a key"), (True, "with a key while active")], ids=["plain", "keyed"]
)
async def test_the_docs_have_the_counted_requests_of_a_job(database_url: str, keyed: bool, name: str) -> None:
    """Reads differ a little, by the shards in which the jobs are."""
    engine = DynamoEngine(database_url)
    engine.clock = SystemClock()  # a test's own takes a request
    counted, _ = await count_requests(engine, 100, keyed)
    page = (Path(__file__).parents[2] / "docs/explanation/dynamodb-capacity.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    told = [float(cell) for cell in row.split("|")[2:-1]]
    assert told == pytest.approx([*counted.values(), units(keyed)], abs=0.2)


async def test_error_groups_of_all_read_the_jobs_of_few_tenants(
    bench: Bench, engine: EngineUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in (ACME, OTHER):
        await Bench(engine, tenant).ended(Status.DEAD_LETTER)
    both = await bench.store.error_groups_of_tenants(50, 100)
    monkeypatch.setattr(administration, "GROUPED_TENANTS", 1)
    one = await bench.store.error_groups_of_tenants(50, 100)
    assert [sorted(group.tenant for group in found.groups) for found in (both, one)] == [[ACME, OTHER], [ACME]]
    assert (both.is_whole, one.is_whole) == (True, False)

"""Claims commit asynchronously. A crash of the database can undo them, and yet no two runs pass for one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import PATIENCE
from tests.postgres.crashes import crash, own_server
from tests.store.bench import EMAIL, REPORT, Bench, EngineUnderTest
from tests.store.fences import assert_it_can_write_nothing
from tests.tenant_kit import DAY

from leasehold.embedded import Server
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate
from leasehold.errors import Unreachable
from leasehold.model.job import Claim, LogLine, tenant_id
from leasehold.model.outcome import Succeeded
from leasehold.model.status import Status
from leasehold.store import Registration, Store, Subscription

# A claim's commit stays in memory for ten seconds, unless a durable commit flushes it.
SETTINGS = {"wal_writer_delay": "10s", "autovacuum": "off", "checkpoint_timeout": "1h", "shared_buffers": "16MB"}


@pytest.fixture(scope="module")
def server(new_cluster: Path) -> Iterator[Server]:
    with own_server(SETTINGS, new_cluster) as running:
        yield running


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    await migrate(server.url, schema="leasehold")
    opened = await engine_for(server.url).open()
    await opened.sync_definitions([REPORT, replace(EMAIL, durable_claims=True)])
    yield opened
    await opened.close()


@pytest.fixture
def bench(store: Store, server: Server, request: pytest.FixtureRequest) -> Bench:
    """With a tenant of its own: the server has been used before."""

    async def open_again() -> Store:
        return await engine_for(server.url).open()

    async def no_clock(_: object) -> None:
        raise NotImplementedError

    return Bench(EngineUnderTest(store, open_again, no_clock), tenant_id(request.node.name[:100]))


async def over_the_crash(bench: Bench) -> None:
    """All of the store's old connections have been found out to be broken."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            try:
                await asyncio.gather(*(bench.store.workers() for _ in range(10)), bench.store.evict(1))
                return
            except Unreachable:
                await asyncio.sleep(0.02)


async def lost_claim(bench: Bench, server: Server) -> Claim:
    """Returns a claim that the crash has undone, while its worker runs on."""
    registration = await bench.join("report", lease=DAY)
    job = await bench.enqueue()
    (claim,) = (await bench.store.claim(registration, 1)).claims
    await crash(server)
    await over_the_crash(bench)
    record = await bench.job(job)
    if record.status is not Status.QUEUED:
        pytest.fail(f"inconclusive: the claim outlived the crash (the job is {record.status})")
    assert record.attempt == 0
    return claim


async def test_a_claim_that_a_crash_has_undone_is_not_run_twice_as_one(bench: Bench, server: Server) -> None:
    first = await lost_claim(bench, server)
    other = await engine_for(server.url).open()
    try:
        (second,) = (await other.claim(await bench.join("report", lease=DAY, store=other), 1)).claims
    finally:
        await other.close()
    assert (second.job, second.attempt) == (first.job, first.attempt)
    assert second.worker != first.worker
    assert await bench.store.append_log([(first, LogLine(1, "a ghost"))]) == {first}
    assert await bench.finish_all([(first, Succeeded('"first"'))]) == {first}
    assert await bench.finish_all([(second, Succeeded('"second"'))]) == frozenset()
    assert (await bench.job(first.job)).result == "second"


async def test_the_same_worker_claims_an_undone_job_with_another_fence(bench: Bench, server: Server) -> None:
    """Job, attempt and worker are the same again; only the batch differs."""
    first = await lost_claim(bench, server)
    second = await claimed_again(bench, first)
    assert (second.job, second.attempt, second.worker) == (first.job, first.attempt, first.worker)
    assert second != first
    await assert_it_can_write_nothing(bench, first)
    await bench.succeed(second, '"second"')
    assert (await bench.job(first.job)).result == "second"


async def test_a_durable_claim_outlives_a_crash(bench: Bench, server: Server) -> None:
    registration = await bench.join("email", lease=DAY)
    job = await bench.enqueue("email")
    (claim,) = (await bench.store.claim(registration, 1)).claims
    await crash(server)
    await over_the_crash(bench)
    assert (await bench.job(job)).status is Status.RUNNING
    await bench.succeed(claim)


async def claimed_again(bench: Bench, lost: Claim) -> Claim:
    """The next claim of the same worker, which is told once that its connection was lost."""
    registration = Registration(lost.worker, Subscription(("report",), (bench.tenant,)))
    with suppress(Unreachable):
        return (await bench.store.claim(registration, 1)).claims[0]
    return (await bench.store.claim(registration, 1)).claims[0]

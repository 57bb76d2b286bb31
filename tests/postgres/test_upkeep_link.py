"""Upkeep has a connection of its own: a worker's finishes wait for none of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from tests.conftest import Raw, eventually
from tests.postgres.race_tools import Connections, Gate, blocked, parts_of, task
from tests.store.bench import Bench
from tests.tenant_kit import DAY, HOUR

from leasehold.engines.postgres import upkeep
from leasehold.errors import Unreachable
from leasehold.model.outcome import LeaseLost, decide
from leasehold.model.status import Status
from leasehold.store import Store


async def _prune(store: Store) -> Any:
    return await store.prune(10)


async def _evict(store: Store) -> Any:
    return await store.evict(10)


@pytest.mark.parametrize(
    ("name", "work"),
    [("fleet/prune", _prune), ("fleet/prune_lines", _prune), ("fleet/evict", _evict)],
    ids=["prune", "lines", "evict"],
)
async def test_a_finish_does_not_wait_for_upkeep(
    bench: Bench, gate: Gate, name: str, work: Callable[[Store], Coroutine[Any, Any, Any]]
) -> None:
    claim = await bench.running()
    await gate.close(name)
    async with task(work(bench.store)) as working:
        await gate.holds(1)
        async with asyncio.timeout(30):
            await bench.succeed(claim)
        assert not working.done()
        await gate.open()
        await working
    assert await bench.status(claim.job) is Status.SUCCEEDED


async def test_a_finish_does_not_wait_for_a_reclaimed_job(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    """A handler that stands still inside its transaction may hold the row of the reclaimed job."""
    lost = await bench.running(registration=await bench.join(lease=HOUR))
    own = await bench.running()
    await bench.move_clock(DAY)
    (orphan,) = await bench.store.evict(10)
    handler = await connections.open()
    transaction = handler.transaction()
    await transaction.start()
    await handler.execute("select from leasehold.jobs where id = $1::uuid for update", lost.job)
    verdict = decide(LeaseLost(), orphan, jitter=0)
    async with task(bench.store.finish([(orphan, verdict)], reclaimed=True)) as reclaiming:
        await blocked(observer)
        async with asyncio.timeout(30):
            await bench.succeed(own)
        assert not reclaiming.done()
        await transaction.rollback()
        assert await reclaiming == frozenset()
    assert await bench.status(own.job) is Status.SUCCEEDED


async def test_an_idle_upkeep_connection_is_closed(
    open_stores: Callable[[int], Awaitable[list[Store]]], observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "IDLE", 0.01)
    (store,) = await open_stores(1)  # each takes the setting when it is opened
    async with parts_of(store).links.upkeep.session() as session:
        pid = session.get_server_pid()

    async def closed() -> bool:
        return not await observer.fetchval("select count(*) from pg_stat_activity where pid = $1", pid)

    await eventually(closed, what="the end of the idle connection")
    assert await store.prune(1) == 0


async def test_a_claim_tells_of_a_connection_lost_while_idle(bench: Bench, observer: Raw) -> None:
    """Otherwise an outage that is over would be told and counted once more, with the next job."""
    claims = parts_of(bench.store).links.claim
    async with claims.session() as session:
        pid = session.get_server_pid()
    await observer.execute("select pg_terminate_backend($1)", pid)

    async def is_lost() -> bool:
        return session.is_closed()

    await eventually(is_lost, what="the end of the claims' connection")
    with pytest.raises(Unreachable) as told:
        await claims.fetch("fleet/probe")
    assert told.value.lost_before

"""Waiting for many results in one process: each is given, and together they ask little."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import PATIENCE, eventually
from tests.postgres.race_tools import parts_of
from tests.store.bench import Bench
from tests.tenant_kit import HOUR

from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.results import Results
from leasehold.model.job import JobId
from leasehold.model.outcome import Succeeded

WAITING = 40


async def test_callers_that_wait_at_once_look_by_one_statement(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ended job wakes all waiting callers. If each looked by itself, n waits would take n² statements."""
    database, looks = parts_of(bench.store).database, list[set[JobId]]()
    fetch = database.fetch

    async def noted(name: str, /, **values: Any) -> Any:
        found = await fetch(name, **values)
        if name == "tenant/get":
            looks.append(set(values["jobs"]))
        return found

    async def all_have_looked() -> bool:
        return set().union(*looks) == set(jobs)

    jobs, claims = await bench.enqueue_many(WAITING), await bench.claim(WAITING)
    monkeypatch.setattr(database, "fetch", noted)
    waits = [asyncio.create_task(bench.jobs.wait_until_final(job, HOUR)) for job in jobs]
    await eventually(all_have_looked, what="a look by each")
    before = len(looks)
    await bench.finish_all([(claim, Succeeded(None)) for claim in claims])
    async with asyncio.timeout(PATIENCE.total_seconds()):
        records = await asyncio.gather(*waits)
    assert [record and record.id for record in records] == jobs
    assert len(looks) - before <= 2


async def test_a_caller_that_gives_up_leaves_no_deaf_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later callers would look every five seconds, and receive nothing."""
    database, asked = parts_of(bench.store).database, asyncio.Event()
    results = Results(TenantDatabases(database))

    async def hangs(*_: object, **__: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(database, "fetch", hangs)
        first = asyncio.create_task(results.listen())
        await asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    claim = await bench.running()
    assert await bench.jobs.wait_until_final(claim.job, timedelta()) is None
    await results.listen()
    heard = results.round()
    await bench.succeed(claim)
    async with asyncio.timeout(PATIENCE.total_seconds()):
        await heard.wait()
    await results.close()


async def test_an_error_of_a_look_is_everybodys(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await bench.enqueue_many(3)
    database = parts_of(bench.store).database
    fetch = database.fetch

    async def fails(name: str, /, **values: Any) -> Any:
        if name == "tenant/get":
            raise ConnectionResetError("gone")
        return await fetch(name, **values)

    monkeypatch.setattr(database, "fetch", fails)
    gone = await asyncio.gather(*(bench.jobs.wait_until_final(job, HOUR) for job in jobs), return_exceptions=True)
    assert [str(error) for error in gone] == ["gone"] * 3

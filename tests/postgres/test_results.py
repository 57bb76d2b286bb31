"""Waiting for many results in one process: each is given, and together they ask little."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.conftest import PATIENCE
from tests.postgres.rig import postgres
from tests.store.bench import HOUR, Bench

WAITING = 40


@pytest.fixture
def asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each statement was asked for."""
    database, asked = postgres(bench.store)._database, Counter[str]()
    fetch = database.fetch

    async def counted(name: str, /, **values: Any) -> Any:
        asked[name] += 1
        return await fetch(name, **values)

    monkeypatch.setattr(database, "fetch", counted)
    return asked


async def test_whoever_waits_at_the_same_time_looks_by_one_statement(bench: Bench, asked: Counter[str]) -> None:
    """Some job's end is a word to all who wait, of whom each would look by itself: forty times forty statements."""
    jobs = await bench.enqueue_many(WAITING)
    claims = await bench.claim(WAITING)
    asked.clear()
    waits = [asyncio.create_task(bench.door.ended(job, HOUR)) for job in jobs]
    while asked["tenant/await"] < WAITING:
        await asyncio.sleep(0)
    for claim in claims:
        await bench.succeed(claim)
    async with asyncio.timeout(PATIENCE.total_seconds()):
        records = await asyncio.gather(*waits)
    assert [record and record.id for record in records] == jobs
    assert asked["tenant/get"] <= 4 * WAITING


async def test_an_error_of_a_look_is_everybodys(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await bench.enqueue_many(3)
    database = postgres(bench.store)._database
    fetch = database.fetch

    async def fails(name: str, /, **values: Any) -> Any:
        if name == "tenant/get":
            raise ConnectionResetError("gone")
        return await fetch(name, **values)

    monkeypatch.setattr(database, "fetch", fails)
    gone = await asyncio.gather(*(bench.door.ended(job, HOUR) for job in jobs), return_exceptions=True)
    assert [str(error) for error in gone] == ["gone"] * 3

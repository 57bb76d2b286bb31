"""The raw SQL baseline of the benchmark still matches the schema."""

import asyncio
from pathlib import Path

import asyncpg
from bench.systems.leasehold import PARTS
from bench.systems.raw import Loop, RawProducer
from bench.tape import Tape
from tests.conftest import Raw, eventually

from leasehold.engines.postgres.database import ONE_PLAN

JOBS = 300


async def test_our_own_statements_can_be_driven_without_a_worker(
    database_url: str, observer: Raw, tmp_path: Path
) -> None:
    await PARTS.install(database_url)
    tape = Tape.blank(tmp_path / "tape", JOBS)
    links = [await asyncpg.connect(database_url, server_settings=ONE_PLAN) for _ in range(2)]

    async def all_done() -> bool:
        return bool(await observer.fetchval("select count(*) = $1 from leasehold.jobs_done", JOBS))

    producer = RawProducer(observer)
    for first in range(0, JOBS, 100):
        await producer.many(range(first, first + 100), {"call": 100})
    running = asyncio.create_task(Loop(tape, claimer=links[0], finisher=links[1]).run())
    try:
        await eventually(all_done, what="the end of all jobs")
    finally:
        running.cancel()
        await asyncio.wait([running])
        for link in links:
            await link.close()
    assert {start.number for start in tape.starts()} == set(range(JOBS))
    tape.close()

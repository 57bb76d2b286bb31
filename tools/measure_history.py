"""Measures the cost of finished jobs: sizes of tables and indexes, the speed of pruning, and the room after vacuum.

    python -m tools.measure_history --jobs 5000000

Starts a Postgres of its own with durable settings, writes so many finished jobs of the last 20 days into it, as `make
bench` does, and moves its clock so that a tenth of them is over. Prints Markdown.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import asyncpg
from bench.server import SETTINGS
from bench.states import query

from leasehold import embedded
from leasehold.engines import engine_for
from leasehold.model.definition import Definition
from leasehold.store import Store

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

TENANTS = 100
BATCH = 1000  # as workers and `leasehold prune` do
# Jobs ended within 20 days and are kept for 30: in twelve days, the first tenth of them is over.
TWELVE_DAYS_LATER = """
    create or replace function leasehold.clock() returns timestamptz language sql volatile
    as $$ select clock_timestamp() + interval '12 days' $$
"""
SIZES = """
    select relation.relname::text as name, relation.relkind = 'i' as is_index, pg_relation_size(relation.oid) as bytes
    from pg_class relation join pg_namespace n on n.oid = relation.relnamespace
    where n.nspname = 'leasehold' and relation.relname like 'jobs_done%' and relation.relkind in ('r', 'i')
    order by is_index, bytes desc
"""
DEAD = "select n_dead_tup from pg_stat_user_tables where schemaname = 'leasehold' and relname = 'jobs_done'"


async def main(jobs: int) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "shared_preload_libraries"}
    with tempfile.TemporaryDirectory() as folder, embedded.postgres(Path(folder) / "pg", settings=settings) as server:
        engine = engine_for(server.url)
        await engine.prepare()
        store, connection = await engine.open(), await asyncpg.connect(server.url)
        try:
            await store.sync_definitions([Definition("bench")])
            await fill(connection, jobs)
            before = await sizes(connection)
            say_sizes(jobs, before)
            await connection.execute(TWELVE_DAYS_LATER)
            pruned = await prune(store)
            await vacuum(connection, jobs - pruned, before)
        finally:
            await connection.close()
            await store.close()


async def fill(connection: "Connection", jobs: int) -> None:
    began = monotonic()
    await connection.execute(query("uuid7"))
    await connection.execute(query("tenants"), TENANTS)
    await connection.execute(query("finished"), jobs, TENANTS, timeout=3600)
    await connection.execute("vacuum analyze leasehold.jobs_done")
    say(f"{jobs:,} finished jobs were written in {monotonic() - began:.0f} s.\n")


async def sizes(connection: "Connection") -> dict[str, int]:
    return {row["name"]: row["bytes"] for row in await connection.fetch(SIZES)}


def say_sizes(jobs: int, found: dict[str, int]) -> None:
    say("| relation | MB | bytes a job |\n|---|---|---|")
    for name, size in [*found.items(), ("all", sum(found.values()))]:
        say(f"| {name} | {size / 2**20:,.0f} | {size / jobs:,.0f} |")


async def prune(store: Store) -> int:
    """Prunes all jobs that are due, in the batches of a worker. Returns how many."""
    pruned, times = 0, list[float]()
    began = monotonic()
    while True:
        before = monotonic()
        batch = await store.prune(BATCH)
        times.append(monotonic() - before)
        pruned += batch
        if batch < BATCH:
            break
    seconds = monotonic() - began
    say(f"\nPruned {pruned:,} jobs in {seconds:.1f} s: {pruned / seconds:,.0f} a second; a batch of {BATCH:,} takes")
    say(f"{1000 * share_of(times, 0.5):.0f} ms (median), at most {1000 * max(times):.0f} ms.")
    return pruned


async def vacuum(connection: "Connection", left: int, before: dict[str, int]) -> None:
    dead = await connection.fetchval(DEAD)
    began = monotonic()
    await connection.execute("vacuum leasehold.jobs_done", timeout=3600)
    after = await sizes(connection)
    say(f"\nVacuum removed {dead:,} dead rows in {monotonic() - began:.1f} s. {left:,} jobs are left in")
    now, then = (sum(found.values()) / 2**20 for found in (after, before))
    say(f"{now:,.0f} MB, of {then:,.0f} MB before: files do not shrink, and new jobs use the room.")


def share_of(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(share * (len(times) - 1))]


def say(text: str) -> None:
    print(text)  # noqa: T201


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--jobs", type=int, default=100_000)
    asyncio.run(main(options.parse_args().jobs))

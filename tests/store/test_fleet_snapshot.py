"""Figures of the fleet: a known state gives exactly these numbers, and one of many processes measures them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.fleet_snapshot import DepthCounts, FleetSnapshot
from leasehold.model.job import NewJob
from leasehold.model.limits import Pause, Scope, ScopeKind
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.store import Store

NOW = timedelta()
# Longer than any engine waits between two measurements.
LATER = timedelta(minutes=2)
ALONE = "alone"
"""A definition whose jobs no bystander has."""


@pytest.fixture(autouse=True)
async def alone(store: Store) -> None:
    await store.sync_definitions([Definition(ALONE, backoff=Steps(3600))])


# A sequence counts also in transactions that are rolled back.
COUNT_MEASUREMENTS = """
    create sequence public.measurements;
    create function public.note_measurement() returns trigger language plpgsql as $$
    begin
        perform nextval('public.measurements');
        return new;
    end $$;
    create trigger note_measurement before update of figures on leasehold.fleet_snapshot
        for each row execute function public.note_measurement();
"""
COUNTED = "select case when is_called then last_value else 0 end from public.measurements"
Count = Callable[[], Awaitable[int]]


@pytest.fixture
async def measurements(engine_name: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Count:
    """Counts how often the figures are measured from now on, by all stores."""
    return await (count_in_postgres(database_url) if engine_name == "postgres" else count_in_dynamodb(monkeypatch))


async def count_in_postgres(url: str) -> Count:
    async def count(prepare: str = "select") -> int:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(prepare)
            return int(await connection.fetchval(COUNTED))
        finally:
            await connection.close()

    await count(COUNT_MEASUREMENTS)
    return count


async def count_in_dynamodb(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Each measurement begins with empty depths."""
    measured = 0

    class Counted(DepthCounts):
        def __init__(self) -> None:
            nonlocal measured
            measured += 1
            super().__init__()

    async def count() -> int:
        return measured

    monkeypatch.setattr("leasehold.engines.dynamodb.fleet_snapshot.DepthCounts", Counted)
    return count


async def measure(bench: Bench) -> FleetSnapshot:
    await bench.move_clock(LATER)
    found = await bench.store.fleet_snapshot(NOW)
    assert found is not None
    return found


def depths_of(found: FleetSnapshot, tenant: str) -> dict[str, int]:
    return {state: jobs for (name, state), jobs in found.by_tenant.items() if name == tenant}


async def test_jobs_are_counted_by_tenant_and_state(bench: Bench) -> None:
    worker = await bench.join(ALONE)
    await bench.fail(await bench.running(ALONE, worker))
    await bench.running(ALONE, worker)
    await bench.enqueue_many(3, ALONE)
    await bench.enqueue(ALONE, delay=HOUR)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition=ALONE)] * 2)
    found = await measure(bench)
    assert depths_of(found, ACME) == {"ready": 3, "running": 1, "retrying": 1, "scheduled": 1}
    assert depths_of(found, OTHER) == {"ready": 2}
    by_state = {state: jobs for (name, state), jobs in found.by_definition.items() if name == ALONE}
    assert by_state == {"ready": 5, "running": 1, "retrying": 1, "scheduled": 1}


async def test_a_definition_without_jobs_has_a_depth_of_zero(bench: Bench) -> None:
    assert (await measure(bench)).by_definition[ALONE, "ready"] == 0


@pytest.mark.abilities("series")
async def test_dead_letters_are_counted_by_tenant(bench: Bench) -> None:
    for _ in range(2):
        await bench.dead_lettered()
    await bench.failed()
    assert depths_of(await measure(bench), ACME)["dead_letter"] == 2


async def test_the_oldest_due_job_tells_how_long_it_waits(bench: Bench) -> None:
    await bench.enqueue(ALONE)
    await bench.enqueue(ALONE, delay=HOUR)
    await bench.move_clock(HOUR / 2)
    await bench.enqueue(ALONE, priority=1)
    waited = (await measure(bench)).oldest[ALONE]
    assert HOUR / 2 <= timedelta(seconds=waited) < HOUR


async def test_a_job_that_comes_due_waits_from_then_on(bench: Bench) -> None:
    await bench.enqueue(ALONE, delay=HOUR)
    assert ALONE not in (await measure(bench)).oldest
    await bench.move_clock(HOUR)
    assert timedelta(seconds=(await measure(bench)).oldest[ALONE]) < HOUR / 2


@pytest.mark.parametrize(
    "held", [Scope(ScopeKind.TENANT, ACME), Scope(ScopeKind.DEFINITION, ALONE)], ids=["tenant", "definition"]
)
async def test_a_job_that_a_pause_holds_is_not_the_oldest(bench: Bench, held: Scope) -> None:
    await bench.enqueue(ALONE)
    await bench.store.pause(held, Pause("maintenance"))
    assert ALONE not in (await measure(bench)).oldest
    await bench.store.pause(held, None)
    assert ALONE in (await measure(bench)).oldest


async def test_live_workers_and_unserved_definitions_are_counted(bench: Bench) -> None:
    before = await measure(bench)
    assert ALONE in before.unserved
    await bench.join(ALONE, lease=HOUR)
    found = await measure(bench)
    assert (found.workers - before.workers, found.slots - before.slots) == (1, 1)
    assert ALONE not in found.unserved
    await bench.move_clock(HOUR)
    assert ALONE in (await measure(bench)).unserved


async def test_a_schedule_that_no_scheduler_fires_is_overdue(bench: Bench) -> None:
    assert (await measure(bench)).overdue == 0
    await bench.store.triggers(ACME).add(NewTrigger(label="hourly", definition=ALONE, schedule=Every(24 * HOUR)))
    assert (await measure(bench)).overdue == 0
    await bench.move_clock(48 * HOUR)
    assert timedelta(seconds=(await measure(bench)).overdue) > 12 * HOUR


async def test_figures_are_read_until_they_are_old(bench: Bench, second_store: Store) -> None:
    first = await measure(bench)
    await bench.enqueue(ALONE)
    read = await second_store.fleet_snapshot(HOUR)
    assert read is not None
    assert read.by_definition == first.by_definition
    await bench.move_clock(HOUR)
    again = await second_store.fleet_snapshot(HOUR)
    assert again is not None
    assert again.by_definition[ALONE, "ready"] == 1
    assert again.age < read.age + HOUR.total_seconds() / 2


async def test_one_of_many_readers_measures(bench: Bench, second_store: Store, measurements: Count) -> None:
    await measure(bench)
    assert await measurements() == 1
    await bench.enqueue(ALONE)
    await bench.move_clock(LATER)
    readers = [store.fleet_snapshot(LATER / 2) for store in (bench.store, second_store) for _ in range(5)]
    found = [each for each in await asyncio.gather(*readers) if each is not None]
    assert len(found) == 10
    assert await measurements() == 2
    assert 1 in [each.by_definition[ALONE, "ready"] for each in found]
    await bench.enqueue(ALONE)
    later = await second_store.fleet_snapshot(LATER / 2)
    assert later is not None
    assert later.by_definition[ALONE, "ready"] == 1
    assert await measurements() == 2

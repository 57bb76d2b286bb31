"""The findings of doctor about a table: workers, schedulers and leases."""

from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, HOUR

from leasehold.engine import Finding, Severity
from leasehold.engines import engine_for
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger


async def findings(url: str) -> dict[str, Finding]:
    return {finding.check: finding async for finding in engine_for(url).examine()}


async def test_every_check_of_a_table_is_made(database_url: str, bench: Bench) -> None:
    await bench.join()
    found = await findings(database_url)
    assert list(found) == ["table", "clock", "ttl", "workers", "scheduler", "leases"]
    assert found["workers"] == Finding("workers", Severity.OK, "1 live, 1 slots, 0 running")


async def test_definitions_that_no_worker_serves_are_named(database_url: str, bench: Bench) -> None:
    assert (await findings(database_url))["workers"].text == "none lives"
    await bench.join("report")
    assert "none of them serves email" in (await findings(database_url))["workers"].text


async def test_late_schedules_and_dead_workers_are_found(database_url: str, bench: Bench) -> None:
    await bench.running(registration=await bench.join(lease=LEASE))
    await bench.store.triggers(ACME).add(NewTrigger(label="hourly", definition="report", schedule=Every(HOUR)))
    await bench.move_clock(3 * HOUR)
    found = await findings(database_url)
    assert found["scheduler"].verdict is Severity.PROBLEM
    assert found["leases"].text == "1 worker has not renewed a lease in time; 1 running job has no live worker"

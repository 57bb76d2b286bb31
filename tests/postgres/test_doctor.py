"""The findings of doctor: each check, where all is well and where it is not."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.conftest import Clock, Raw, eventually
from tests.lossy_proxies import through_a_pooler, without_notifications
from tests.postgres.race_tools import Connections
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold import embedded
from leasehold.engine import Finding, Severity
from leasehold.engines.postgres import doctor
from leasehold.engines.postgres.doctor import examine
from leasehold.engines.postgres.migrate import migrations
from leasehold.errors import Unreachable
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob, tenant_id
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.store import Store

LATEST = migrations("leasehold")[-1].version
ANOTHER = tenant_id("another")
Find = Callable[[str], Awaitable[Finding]]


async def findings(url: str, schema: str = "leasehold") -> dict[str, Finding]:
    return {finding.check: finding async for finding in examine(url, schema)}


@pytest.fixture
def find(database_url: str) -> Find:
    """Returns the finding of one check on this test's database."""

    async def found(check: str) -> Finding:
        return (await findings(database_url))[check]

    return found


async def test_every_check_is_made_in_this_order(database_url: str) -> None:
    found = await findings(database_url)
    assert list(found) == [
        "database",
        "durability",
        "schema",
        "listener",
        "clock",
        "workers",
        "schedules",
        "scheduler",
        "leases",
        "bloat",
        "snapshots",
        "connections",
        "notifications",
    ]


async def test_each_problem_comes_with_its_fix(database_url: str, clock: Clock) -> None:
    await clock.move(HOUR)
    found = [*(await findings(database_url)).values(), *(await findings(database_url, "absent")).values()]
    assert len({finding.check for finding in found if finding.verdict is not Severity.OK}) >= 3
    assert all((finding.fix is None) == (finding.verdict is Severity.OK) for finding in found)


async def test_nothing_is_written(database_url: str, observer: Raw) -> None:
    name = await observer.fetchval("select current_database()")
    await observer.execute(f'alter database "{name}" set default_transaction_read_only = on')
    assert "workers" in await findings(database_url)


async def test_a_missing_database_can_not_be_examined(database_url: str) -> None:
    nowhere = f"postgresql://leasehold@127.0.0.1:1{urlsplit(database_url).path}"
    with pytest.raises(Unreachable):
        await findings(nowhere)


# ----------------------------------------------------------------------------------------------- database, durability


async def test_the_servers_version_and_distance_are_told(find: Find, observer: Raw) -> None:
    version = (await observer.fetchval("show server_version")).split()[0]
    finding = await find("database")
    assert finding.verdict is Severity.OK
    assert finding.text.startswith(f"PostgreSQL {version}, ")
    assert finding.text.endswith(" ms")


async def test_a_server_that_is_too_old_is_a_problem(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OLDEST_SERVER", 99)
    finding = await find("database")
    assert finding.verdict is Severity.PROBLEM
    assert "Leasehold needs 99 or newer" in finding.text


async def test_a_server_that_does_not_wait_for_its_disk_is_a_problem(find: Find, observer: Raw) -> None:
    if await observer.fetchval("show fsync") == "on":
        pytest.skip("this server waits for its disk, as it should")
    finding = await find("durability")
    assert finding.verdict is Severity.PROBLEM
    assert finding.text.startswith("switched off: fsync and full_page_writes;")


def test_a_server_as_it_comes_is_durable(prepared_home: Path) -> None:
    with embedded.postgres(prepared_home) as server:
        found = asyncio.run(findings(server.url))
    assert found["durability"].verdict is Severity.OK


# ------------------------------------------------------------------------------------------------------------- schema


async def test_the_schemas_version_is_told(find: Find) -> None:
    assert await find("schema") == Finding("schema", Severity.OK, f"{LATEST:04d} (current)")


async def test_a_missing_schema_is_a_problem_and_what_needs_it_is_left_out(database_url: str) -> None:
    found = await findings(database_url, "absent")
    assert (found["schema"].verdict, found["schema"].code) == (Severity.PROBLEM, "LH-2001")
    assert '"absent" does not exist' in found["schema"].text
    assert list(found) == ["database", "durability", "schema", "listener"]


async def test_a_schema_that_needs_newer_code_is_a_problem(database_url: str, observer: Raw) -> None:
    await observer.execute("insert into leasehold.migrations (version, name, needs) values (9999, 'later', 9999)")
    found = await findings(database_url)
    assert (found["schema"].verdict, found["schema"].code) == (Severity.PROBLEM, "LH-2002")
    assert "workers" not in found


async def test_a_newer_schema_on_which_this_code_works_is_well(find: Find, observer: Raw) -> None:
    await observer.execute("insert into leasehold.migrations (version, name, needs) values (9999, 'later', 1)")
    finding = await find("schema")
    assert finding.verdict is Severity.OK
    assert finding.text.startswith("9999 (newer than")


# ----------------------------------------------------------------------------------------------------------- listener


async def test_a_notification_arrives(find: Find) -> None:
    finding = await find("listener")
    assert (finding.verdict, finding.code) == (Severity.OK, None)


async def test_a_way_on_which_no_notification_arrives_is_a_problem(database_url: str) -> None:
    async with without_notifications(database_url) as deaf_url:
        finding = (await findings(deaf_url))["listener"]
    assert (finding.verdict, finding.code) == (Severity.PROBLEM, "LH-3002")
    assert "no job is lost" in finding.text
    assert finding.fix == "Give workers a direct connection to Postgres, by LEASEHOLD_URL or by LEASEHOLD_LISTEN_URL."


async def test_a_pooler_in_transaction_mode_is_warned_of_by_its_name(database_url: str) -> None:
    async with through_a_pooler(database_url) as pooled_url:
        found = await findings(pooled_url)
    assert (found["listener"].verdict, found["listener"].code) == (Severity.WARNING, "LH-3002")
    assert "pooler in transaction mode" in found["listener"].text
    assert "workers" in found


async def test_a_pooler_in_session_mode_lets_notifications_through(database_url: str) -> None:
    async with through_a_pooler(database_url, mode="session") as pooled_url:
        assert (await findings(pooled_url))["listener"].verdict is Severity.OK


# -------------------------------------------------------------------------------------------------------------- clock


async def test_clocks_that_agree_are_well(find: Find) -> None:
    assert (await find("clock")).verdict is Severity.OK


@pytest.mark.parametrize(("moved", "where"), [(HOUR, "behind"), (-HOUR, "ahead of")])
async def test_clocks_that_differ_are_warned_of(find: Find, clock: Clock, moved: timedelta, where: str) -> None:
    await clock.move(moved)
    finding = await find("clock")
    assert (finding.verdict, finding.code) == (Severity.WARNING, "LH-3004")
    assert f" s {where} the database" in finding.text
    assert "jobs are safe" in finding.text


# ------------------------------------------------------------------------------------------------------------ workers


async def test_that_nobody_works_is_warned_of(find: Find) -> None:
    finding = await find("workers")
    assert (finding.verdict, finding.text) == (Severity.WARNING, "none lives")


async def test_the_living_are_counted_with_their_slots_and_jobs(find: Find, bench: Bench) -> None:
    await bench.join()
    await bench.running()
    assert await find("workers") == Finding("workers", Severity.OK, "2 live, 2 slots, 1 running")


async def test_a_worker_whose_lease_ran_out_lives_no_longer(find: Find, bench: Bench) -> None:
    await bench.join(lease=LEASE)
    await bench.move_clock(2 * LEASE)
    assert (await find("workers")).text == "none lives"


async def test_ready_jobs_that_no_worker_serves_are_named(find: Find, bench: Bench) -> None:
    await bench.join("report")
    await bench.enqueue("report")
    await bench.enqueue("email")
    finding = await find("workers")
    assert finding.verdict is Severity.WARNING
    assert finding.text == "1 live, 1 slot, 0 running; none of them serves email; ready jobs of email wait"


async def test_definitions_without_jobs_that_no_worker_serves_are_named(find: Find, bench: Bench) -> None:
    await bench.join("report")
    finding = await find("workers")
    assert (finding.verdict, finding.text) == (
        Severity.WARNING,
        "1 live, 1 slot, 0 running; none of them serves email",
    )
    assert "leasehold definitions deactivate KEY" in (finding.fix or "")


async def test_ready_jobs_of_a_tenant_that_no_worker_serves_are_named(find: Find, bench: Bench) -> None:
    await bench.join(tenants=(ACME,))
    for tenant in (ACME, OTHER, ANOTHER):
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")])
    finding = await find("workers")
    assert (finding.verdict, finding.text) == (
        Severity.WARNING,
        f"1 live, 1 slot, 0 running; ready jobs wait that none of them serves: report for {min(OTHER, ANOTHER)}",
    )
    assert "--tenants" in (finding.fix or "")


async def test_workers_may_share_tenants_out(find: Find, bench: Bench) -> None:
    await bench.join(tenants=(ACME,))
    await bench.join(tenants=(OTHER,))
    for tenant in (ACME, OTHER):
        await bench.store.tenant(tenant).enqueue([NewJob(definition="report")])
    assert (await find("workers")).verdict is Severity.OK


async def test_one_worker_for_all_tenants_leaves_none_out(find: Find, bench: Bench) -> None:
    await bench.join(tenants=(ACME,))
    await bench.join(tenants=None)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    assert (await find("workers")).verdict is Severity.OK


async def test_schedules_of_a_tenant_that_no_worker_serves_are_named(find: Find, bench: Bench) -> None:
    await bench.join(tenants=(ACME,))
    for tenant in (ACME, OTHER):
        await bench.store.triggers(tenant).add(NewTrigger(label="hourly", definition="report", schedule=Every("1h")))
    assert "1 of them for jobs that no live worker serves: report" in (await find("schedules")).text


async def test_schedules_that_no_worker_serves_are_named(find: Find, bench: Bench) -> None:
    assert (await find("schedules")).text == "0 schedules fire"
    for key in ("report", "email"):
        await bench.store.triggers(bench.tenant).add(NewTrigger(label=key, definition=key, schedule=Every("1h")))
    await bench.join("report")
    finding = await find("schedules")
    assert (finding.verdict, finding.text) == (
        Severity.WARNING,
        "2 schedules fire, 1 of them for jobs that no live worker serves: email",
    )
    assert "leasehold triggers rm ID" in (finding.fix or "")


async def test_a_schedule_that_does_not_fire_needs_no_worker(find: Find, bench: Bench) -> None:
    triggers = bench.store.triggers(bench.tenant)
    await triggers.add(NewTrigger(label="off", definition="email", schedule=Every("1h"), enabled=False))
    assert await find("schedules") == Finding("schedules", Severity.OK, "0 schedules fire")


async def test_inactive_definitions_need_no_worker(find: Find, bench: Bench) -> None:
    await bench.join("report")
    await bench.store.activate("email", False)
    assert (await find("workers")).verdict is Severity.OK


async def test_jobs_that_wait_where_nobody_works_are_named(find: Find, bench: Bench) -> None:
    await bench.enqueue("report")
    await bench.enqueue("email")
    assert (await find("workers")).text == "none lives, and ready jobs of email, report wait"


async def test_a_job_that_came_due_is_ready_even_if_nobody_promoted_it(find: Find, bench: Bench) -> None:
    await bench.enqueue("email", delay=HOUR)
    assert "email" not in (await find("workers")).text
    await bench.move_clock(2 * HOUR)
    assert "email" in (await find("workers")).text


async def test_jobs_of_an_inactive_definition_wait_for_something_else(find: Find, bench: Bench) -> None:
    await bench.enqueue("email")
    await bench.store.activate("email", False)
    assert (await find("workers")).text == "none lives"


async def test_some_of_many_definitions_are_named(find: Find, bench: Bench, store: Store) -> None:
    await store.sync_definitions([Definition(f"kind_{number}") for number in range(7)])
    for number in range(7):
        await bench.enqueue(f"kind_{number}")
    text = (await find("workers")).text
    assert "kind_0, kind_1, kind_2, kind_3, kind_4 and 2 more" in text


# -------------------------------------------------------------------------------------------------- scheduler, leases


async def test_a_schedule_that_no_scheduler_fires_is_a_problem(find: Find, bench: Bench) -> None:
    assert (await find("scheduler")).text == "no schedule waits for one"
    await bench.store.triggers(ACME).add(NewTrigger(label="hourly", definition="report", schedule=Every("1h")))
    assert (await find("scheduler")).verdict is Severity.OK
    await bench.move_clock(3 * HOUR)
    finding = await find("scheduler")
    assert finding.verdict is Severity.PROBLEM
    assert "leasehold scheduler" in (finding.fix or "")


async def test_jobs_of_a_worker_that_is_gone_are_counted(find: Find, bench: Bench) -> None:
    assert (await find("leases")).verdict is Severity.OK
    await bench.running(registration=await bench.join(lease=LEASE))
    assert (await find("leases")).verdict is Severity.OK
    await bench.move_clock(2 * LEASE)
    finding = await find("leases")
    assert (finding.verdict, finding.text) == (
        Severity.WARNING,
        "1 worker has not renewed a lease in time; 1 running job has no live worker",
    )
    assert "Start a worker" in (finding.fix or "")
    await bench.join()
    assert "next heartbeat" in ((await find("leases")).fix or "")


# --------------------------------------------------------------------------------------------------------------- load


async def test_dead_rows_that_vacuum_leaves_are_warned_of(
    find: Find, bench: Bench, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "TOLERATED_DEAD_ROWS", 10)
    assert (await find("bloat")).verdict is Severity.OK
    await observer.execute("alter table leasehold.jobs set (autovacuum_enabled = off)")
    await bench.enqueue_many(100)
    await observer.execute("delete from leasehold.jobs")
    await observer.execute("select pg_stat_force_next_flush()")

    async def is_seen() -> bool:
        return (await find("bloat")).verdict is Severity.WARNING

    await eventually(is_seen, what="dead rows in the statistics")


async def test_few_connections_that_are_left_are_warned_of(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await find("connections")).verdict is Severity.OK
    monkeypatch.setattr(doctor, "MANY_CONNECTIONS", 0.0)
    assert (await find("connections")).verdict is Severity.WARNING
    monkeypatch.setattr(doctor, "TOO_MANY_CONNECTIONS", 0.0)
    finding = await find("connections")
    assert finding.verdict is Severity.PROBLEM
    assert "max_connections" in (finding.fix or "")


async def test_a_queue_of_notifications_that_fills_is_a_problem(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await find("notifications")).verdict is Severity.OK
    monkeypatch.setattr(doctor, "FULL_QUEUE", 0.0)
    assert (await find("notifications")).verdict is Severity.PROBLEM


# ---------------------------------------------------------------------------------------------------------- snapshots


async def test_short_transactions_are_well(find: Find, connections: Connections) -> None:
    await hold_a_snapshot(await connections.open())
    assert (await find("snapshots")).verdict is Severity.OK


async def test_a_transaction_that_is_open_for_long_is_named(
    find: Find, connections: Connections, clock: Clock
) -> None:
    holder = await connections.open()
    await hold_a_snapshot(holder)
    await clock.move(HOUR)
    finding = await find("snapshots")
    assert finding.verdict is Severity.WARNING
    assert "open for 1:00:0" in finding.text
    assert f"process {holder.get_server_pid()}, role " in finding.text
    assert "idle in transaction)" in finding.text


async def hold_a_snapshot(connection: Raw) -> None:
    await connection.execute("begin isolation level repeatable read")
    await connection.execute("select count(*) from leasehold.jobs")

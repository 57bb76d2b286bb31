"""`leasehold workers`, `prune` and `doctor`."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.cli.terminal import NOWHERE, CommandLine
from tests.store.bench import Bench, all_jobs
from tests.tenant_kit import ACME, DAY, OTHER

from leasehold.engine import Finding, Severity
from leasehold.engines.postgres.engine import PostgresEngine
from leasehold.operations import admin
from leasehold.store import Subscription, WorkerFacts


async def test_workers_are_listed_with_what_they_do(leasehold: CommandLine, bench: Bench) -> None:
    facts = WorkerFacts(host="host-2", pid=4411, version="0.1.0", slots=8)
    registration = await bench.store.join(Subscription(("report", "email")), facts, DAY)
    await bench.enqueue()
    await bench.claim_one(registration)
    listed = await leasehold("workers")
    assert listed.code == 0
    assert listed.out.split("\n")[0].split() == ["ID", "HOST:PID", "VERSION", "SLOTS", "RUNNING", "SEEN", "SERVES"]
    assert listed.rows == [
        [registration.worker[-8:], "host-2:4411", "0.1.0", "8", "1", listed.rows[0][5], "report, email"]
    ]
    assert "1 worker · " in listed.err


async def test_a_worker_for_some_tenants_says_so(leasehold: CommandLine, bench: Bench) -> None:
    await bench.join("report", tenants=(ACME, OTHER))
    assert (await leasehold("workers")).rows[0][-1] == f"report for acme, {OTHER}"


async def test_a_worker_whose_lease_is_over_is_marked(leasehold: CommandLine, bench: Bench) -> None:
    await bench.join("report", lease=timedelta())
    assert (await leasehold("workers")).rows[0][5].endswith(", lease over")


async def test_workers_as_json_are_a_list(leasehold: CommandLine, bench: Bench) -> None:
    assert (await leasehold("workers", "--json")).document == []
    registration = await bench.join("report")
    (worker,) = (await leasehold("workers", "--json")).document
    assert worker["id"] == registration.worker
    assert (worker["host"], worker["pid"], worker["slots"], worker["running"]) == ("bench", 1, 1, 0)
    assert (worker["definitions"], worker["tenants"]) == (["report"], ["acme"])


async def test_where_no_worker_lives_stdout_is_empty(leasehold: CommandLine) -> None:
    none = await leasehold("workers")
    assert (none.code, none.out) == (0, "")
    assert "0 workers" in none.err


async def ended_long_ago(bench: Bench, count: int) -> None:
    for _ in range(count):
        await bench.succeeded()
    await bench.move_clock(31 * DAY)


async def test_prune_deletes_in_batches_until_none_is_left(
    leasehold: CommandLine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "PRUNED_AT_ONCE", 2)
    await ended_long_ago(bench, 5)
    kept = await bench.enqueue()
    done = await leasehold("prune")
    assert (done.code, done.out) == (0, "5\n")
    assert done.err.splitlines() == ["pruned 2 jobs", "pruned 4 jobs", "pruned 5 jobs"]
    assert [job.id for job in await all_jobs(bench.jobs)] == [kept]


async def test_prune_stops_at_its_limit_and_says_so(leasehold: CommandLine, bench: Bench) -> None:
    await ended_long_ago(bench, 3)
    done = await leasehold("prune", "--limit", "2")
    assert (done.code, done.out) == (0, "2\n")
    assert "stopped at --limit 2; there may be more" in done.err
    assert len(await all_jobs(bench.jobs)) == 1


async def test_prune_as_json_says_how_many(leasehold: CommandLine, bench: Bench) -> None:
    await bench.succeeded()
    done = await leasehold("prune", "--json")
    assert (done.document, done.err) == ({"pruned": 0, "audit_entries": 0}, "")
    assert len(await all_jobs(bench.jobs)) == 1


async def test_doctor_finds_a_set_up_that_works(leasehold: CommandLine, bench: Bench) -> None:
    await bench.join(tenants=None)
    examined = await leasehold("doctor", "--json")
    found = {finding["check"]: finding["verdict"] for finding in examined.document["findings"]}
    assert found.keys() >= {"database", "schema", "listener", "clock", "workers"}
    assert (found["database"], found["schema"], found["listener"]) == ("ok", "ok", "ok")


async def test_doctor_says_what_a_machine_lacks_for_commands(
    leasehold: CommandLine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.worker()
    assert "commands" not in (await leasehold("doctor")).out
    monkeypatch.setattr("leasehold.cli.doctor.missing_here", lambda: ("without subreapers, …", "and more"))
    examined = await leasehold("doctor")
    assert "! commands        commands can't be ended completely on this machine: without subreapers" in examined.out


async def test_doctor_says_what_is_wrong_and_what_to_do(leasehold: CommandLine) -> None:
    examined = await leasehold("doctor", "--schema", "fresh")
    assert examined.code == 1
    lines = examined.out.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("✕ schema "))
    assert lines[place].endswith("   LH-2001")
    assert lines[place + 1].strip().startswith("Run: leasehold migrate")


VERDICTS = {
    "0 problems, 0 warnings": ([Severity.OK], 0),
    "0 problems, 1 warning": ([Severity.OK, Severity.WARNING], 0),
    "1 problem, 2 warnings": ([Severity.WARNING, Severity.PROBLEM, Severity.WARNING], 1),
}


@pytest.mark.parametrize(("summary", "verdicts", "code"), [(key, *rest) for key, rest in VERDICTS.items()])
async def test_only_a_problem_makes_doctor_exit_with_1(
    leasehold: CommandLine, monkeypatch: pytest.MonkeyPatch, summary: str, verdicts: list[Severity], code: int
) -> None:
    async def examine(engine: PostgresEngine) -> AsyncIterator[Finding]:
        for verdict in verdicts:
            yield Finding("listener", verdict, "as it is", "LH-3002", fix="Leave it.")

    monkeypatch.setattr(PostgresEngine, "examine", examine)
    people, machines = await leasehold("doctor"), await leasehold("doctor", "--json")
    assert (people.code, machines.code) == (code, code)
    assert people.out.splitlines()[-1] == summary
    assert [line[0] for line in people.out.splitlines()[:-1:2]] == [
        {Severity.OK: "✓", Severity.WARNING: "!", Severity.PROBLEM: "✕"}[verdict] for verdict in verdicts
    ]
    assert people.out.splitlines()[1] == f"{'':18}Leave it."
    assert len(machines.document["findings"]) == len(verdicts)
    assert machines.document["problems"] == verdicts.count(Severity.PROBLEM)
    assert machines.document["warnings"] == verdicts.count(Severity.WARNING)


async def test_doctor_of_a_database_that_is_away_exits_with_7(leasehold: CommandLine) -> None:
    away = await leasehold("doctor", "--url", NOWHERE, "--json")
    assert (away.code, away.error["code"]) == (7, "LH-3001")
